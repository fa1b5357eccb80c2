"""The shell around the in-process log: connections, groups and durability on one event loop."""
