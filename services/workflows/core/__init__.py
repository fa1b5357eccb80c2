"""Decisions about flows, cron jobs and hypernodes: values in, values out; no clock, no I/O."""
