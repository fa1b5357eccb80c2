"""Puts it there."""
