"""The gateway: the HTTP API of Pumice, and a read model of its jobs built from the topics.

It writes submissions and commands to the log and answers from what the other services say there. It
never decides anything: whether a job may run is admission's, whether a command is possible in the end the
controller's. Restarted, it reads the topics again.
"""
