"""What a simulated kubelet decides: programs, admission, the life of a pod, its status.

Pure: time comes as an argument.
"""
