"""What is put into a cluster, as values."""
