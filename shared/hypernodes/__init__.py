"""Hypernodes: which nodes each holds, at any depth. Pure; what asks keeps it told of changes."""
