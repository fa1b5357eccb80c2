"""Tools of the project: generated files, checks, the lock files, a broker to develop with."""
