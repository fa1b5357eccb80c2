"""Topics in, topics out: between the log's records and the core."""
