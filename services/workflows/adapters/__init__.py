"""Informers, writes, probes, and one thin controller for each kind."""
