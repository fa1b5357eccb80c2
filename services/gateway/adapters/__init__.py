"""The edges: HTTP and server-sent events on one side, the topics on the other."""
