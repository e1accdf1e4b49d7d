"""The stages as Prefect tasks, whose rounds are named as the log names them."""

from __future__ import annotations

from flows.texts import round_name
from tasks.shells import prefect_stages

PREFECT = prefect_stages(lambda run, finished: round_name(run.progress(finished)))
