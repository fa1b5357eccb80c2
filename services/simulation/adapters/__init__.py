"""Files in, tables, JSON and charts out."""
