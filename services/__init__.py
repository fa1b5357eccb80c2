"""The services of Pumice, one package each; each runs alone with ``python -m services.<name>``.

Services never import one another: what they say to each other is in ``shared.events``.
"""
