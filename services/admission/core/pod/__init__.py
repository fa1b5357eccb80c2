"""Kubernetes' own rules for pods, as far as jobs meet them: what the API server would refuse later.

Source: k8s.io/kubernetes ``pkg/apis/core/validation`` (1.34), with its defaults understood: a field
that is absent has the API server's default. Codes name the kind of mistake as Kubernetes' causes do:
``required``, ``invalid``, ``unsupported``, ``duplicate``, ``forbidden``, ``not-found``.
"""
