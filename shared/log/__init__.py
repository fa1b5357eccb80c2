"""The log: the ``EventLog`` port and its adapters (Kafka; in-process, in memory or on disk)."""
