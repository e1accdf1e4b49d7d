"""Schedules that travel: what was best on other machines, and for workloads that are alike."""
