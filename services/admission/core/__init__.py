"""Rules for jobs and queues: pure functions from objects and a view of the cluster to violations.

No rule stops at the first mistake, and none raises: a user sees everything that is wrong at once, each
with a stable code and the path of the field. No clock, no I/O, no state.
"""
