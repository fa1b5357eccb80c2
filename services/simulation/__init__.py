"""Trying out: a scenario or a trace, run in virtual time by the scheduling core and the controller's rules.

Nothing of it is a service: no log, no API server, no clock. The core decides as in production, the
controller's pure functions make gangs, pods and statuses of the objects, and a queue of events stands for
time. ``core`` reads and runs, ``adapters`` deal with files and the terminal.
"""
