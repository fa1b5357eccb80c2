"""The in-process log's pure core: partitions, groups, transactions and fencing as values and rules.

Never here: asyncio, clocks, disks. The shell (``shared.log.inprocess``) gives the time, makes a
staged change durable, then publishes it.
"""
