"""The scheduling core: facts and gangs in, decisions and reasons out.

Pure and synchronous: no clock, randomness, I/O or asyncio. ``model.Model`` is fed with events,
``cycle.decide`` makes decisions of it, ``reports.explain`` says why the rest waits.

How it is fast, in one paragraph. Nodes are columns of integers (``nodes``). Every change of a node gets
a number and is noted in a log. For each *shape* (what scheduling sees of a pod) an index (``index``)
keeps how many pods fit on each node, their sum, and the best nodes in order, and repairs itself from
that log, so a placement looks only at the nodes that it uses. Gangs with the same needs wait in one
*lane* (``lanes``): when its head does not fit, none of them is tried until something that stops it changes.
"""
