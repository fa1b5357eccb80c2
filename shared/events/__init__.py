"""The contracts between services: topics, CloudEvents envelopes and the events themselves.

``contracts`` opens with the state model; ``topics`` says where each event goes; ``codec`` turns
envelopes into records of the log and back. Nothing here does I/O.
"""
