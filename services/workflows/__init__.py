"""Workflows: jobs that come from other objects (JobFlow, JobTemplate, CronJob), and hypernodes.

It holds what Kubernetes alone must know: it reads and writes API objects only, needs no log, and never
touches a pod. The jobs it makes go the way of any job applied with kubectl.
"""
