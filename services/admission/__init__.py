"""Admission: says of every submitted job whether it may be created, and if not, every reason.

``core`` has the rules, pure functions which the topic consumer and the Kubernetes webhooks share. The topic
consumer reads ``job-submitted`` and ``cluster-state``, writes ``job-admitted`` or ``job-rejected`` and never
talks to Kubernetes. The webhooks answer the API server. Neither creates what it judges, and who asks twice
gets one answer.
"""
