"""Admission: says of every submitted job whether it may be created, and if not, every reason.

``core`` has the rules, pure functions which the topic consumer and the Kubernetes webhooks share. The
service reads ``job-submitted`` and ``cluster-state`` and writes ``job-admitted`` or ``job-rejected``. It
never talks to Kubernetes and never creates anything; who asks it twice gets one answer.
"""
