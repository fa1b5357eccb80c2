"""The fields of the built-in kinds: ``types.json``, generated from the Kubernetes client's models."""
