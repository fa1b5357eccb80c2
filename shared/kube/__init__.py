"""Kubernetes: the ``Cluster`` port, its HTTP client and the informer (list, watch, local store)."""
