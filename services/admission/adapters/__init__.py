"""Between the topics and the rules."""
