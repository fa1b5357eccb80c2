"""Pure: the short form of a job, submissions, the fold of the topics, and the views of it."""
