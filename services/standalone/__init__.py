"""The whole platform in one process: ``pumice up`` and the demo.

Composes what the services' own ``build`` functions make; decides nothing itself. The log is in process
and the cluster simulated unless told otherwise.
"""
