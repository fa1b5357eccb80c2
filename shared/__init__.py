"""What the services share: Kubernetes objects, event contracts, ports and telemetry.

Nothing here knows about a particular service, and nothing outside this package is imported by two
services.
"""
