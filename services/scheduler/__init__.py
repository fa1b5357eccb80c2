"""The scheduler: decides which gangs start and where their pods go.

It reads facts (``cluster-state``) and gangs (``podgroup-ready``), writes one ``GangDecided`` for each
gang it places and a ``GangReport`` for each that waits. It never talks to Kubernetes.
"""
