"""The controller: makes the cluster look as jobs want it, and tells the other services what exists.

Three loops on one set of informers: the *job controller* (jobs to podgroups, pods and statuses), the
*applier* (carries gang decisions out) and the *observer* (list and watch to ``cluster-state``). It is
the only service that writes pods. It never chooses a node: that is the scheduler's.
"""
