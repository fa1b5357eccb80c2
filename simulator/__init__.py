"""A small Kubernetes API server and simulated nodes, for the laptop, the tests and the replays.

It answers over HTTP as kube-apiserver does, closely enough for ``kubectl``, ``vcctl`` and the services,
from objects in memory. It is not meant for production: no authentication, no persistence, one process.

``core`` is pure: the store, patches, selectors, schemas and the verbs themselves as values in, values
out. ``strategies`` says what is particular to built-in kinds. ``web`` is the HTTP shell.
"""
