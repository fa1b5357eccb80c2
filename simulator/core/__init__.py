"""Pure rules of the API server. Never here: a clock, randomness, I/O, asyncio."""
