"""Kubernetes objects as the services read them: Volcano's kinds whole, of the core kinds what we touch.

A model is a lens on a JSON object, not a copy of its schema: fields that a model does not know stay in
it, what is absent stays absent, and an explicit null stays null (``model_validate(obj).dump() == obj``).
Nothing here judges an object; ranges, patterns and enumerations are kept as schema for the CRD
manifests, and the rules are the admission service's.
"""
