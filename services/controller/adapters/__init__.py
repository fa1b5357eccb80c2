"""The controller's hands: informers, API writes, topics. They carry out what the core decided."""
