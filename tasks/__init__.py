"""Stages of a tuning run: plain functions (`tasks.stages`) and their Prefect shells."""
