"""The columns of the built-in kinds' tables."""
