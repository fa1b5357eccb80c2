"""``pumice install`` and ``pumice uninstall``: what a cluster must have before the services run in it.

Definitions of our kinds, the first queues, what each service may do, and the webhooks. The services
themselves are started otherwise (the Helm chart, or processes outside the cluster). Both commands may be
run again at any time.
"""
