from __future__ import annotations

import pytest

from flows.settings import TuneSettings
from tests.flows.still import still_times

__all__ = ["still_times"]


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """A temporary Prefect server and database for the whole session; started once (12 s)."""
    from prefect.settings import (
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_LOGGING_TO_API_ENABLED,
        PREFECT_SERVER_ANALYTICS_ENABLED,
        temporary_settings,
    )
    from prefect.testing.utilities import prefect_test_harness

    quiet = {
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,
        PREFECT_LOGGING_TO_API_ENABLED: False,
        PREFECT_SERVER_ANALYTICS_ENABLED: False,
    }
    from flows.shell.published import close_publishers

    with temporary_settings(quiet), prefect_test_harness(server_startup_timeout=120):
        yield
        close_publishers()  # before the server ends: they would say that it does not answer


@pytest.fixture
def bare_server(prefect_server):
    """The server without automations, deployments, pools and variables, before and after a test.

    What one test leaves there acts on the runs of the next: a schedule that is due, an
    automation that a run's event sets off.
    """
    _clear()
    yield
    _clear()


def _clear():
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for automation in client.read_automations():
            client.delete_automation(automation.id)
        for deployment in client.read_deployments():
            client.delete_deployment(deployment.id)
        for pool in client.read_work_pools():
            client.delete_work_pool(pool.name)
        for variable in client._client.post("/variables/filter", json={}).json():
            client.delete_variable_by_name(variable["name"])


@pytest.fixture
def tiny(tmp_path):
    """Settings of a run that takes a few seconds: an MLP and two rounds of measurements."""
    return TuneSettings(
        network="mlp",
        target="llvm -mcpu=native -num-cores=1",
        trials=16,
        store=str(tmp_path / "records"),
        output=str(tmp_path / "mlp.tw"),
    )
