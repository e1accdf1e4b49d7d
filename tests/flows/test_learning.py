"""The flows that learn, on a server; and the commands of the same."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from flows.texts import target_words
from storage import RecordStore
from storage.cards import Card, Judged, Taught
from tests.flows.test_canary import events
from tests.tasks.test_learning import SIZES, TARGETS, filled

pytestmark = pytest.mark.filterwarnings("ignore")
TARGET = str(TARGETS[0])


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Records of two targets: too few tasks to judge by."""
    path = tmp_path_factory.mktemp("small") / "records"
    filled(path, sizes=SIZES[:3], count=12)
    return path


@pytest.fixture
def store(small, tmp_path):
    shutil.copytree(small, tmp_path / "records")
    return tmp_path / "records"


@pytest.fixture
def believed(monkeypatch):
    """Whatever was trained is good enough."""
    from tasks.learning import retrain, verdict

    def said(*arguments):
        return replace(
            verdict.verdict(*arguments), serves=(TARGET,), promoted=True, reason="so it was said"
        )

    monkeypatch.setattr(retrain, "verdict", said)


def test_a_promotion_is_a_page_and_an_event(prefect_server, store, believed):
    from prefect.client.orchestration import get_client

    from flows.evaluate_transfer import evaluate_transfer
    from flows.events import MODEL_PROMOTED, STORE_GROWN
    from flows.learning_settings import RetrainSettings, TransferSettings
    from flows.maintain_store import maintain_store
    from flows.retrain import retrain
    from flows.shell.published import close_publishers
    from flows.upkeep_settings import MaintainSettings

    maintain_store(MaintainSettings(store=str(store)))
    (done,) = retrain(RetrainSettings(stores=(str(store),)))
    (report,) = evaluate_transfer(TransferSettings(stores=(str(store),)))
    assert done.promoted and report.champion == done.name
    close_publishers()
    with get_client(sync_client=True) as client:
        pages = {a.key: a.data for a in client.read_artifacts()}
        (promoted,) = events(client, MODEL_PROMOTED)
        grown = events(client, STORE_GROWN)
    card = pages["model-llvm"]
    assert card.startswith(f"# Cost model for llvm\n\n**{done.name} is")
    assert f"The champion is `{done.name}`." in card
    assert f"| {target_words(TARGETS[0])} | 3 |" in card
    assert "## Champions" in card and "not judged: 3 workloads, 8 needed" in card
    assert promoted["resource"]["prefect.resource.id"] == "tilework.model.llvm"
    assert promoted["payload"]["model"] == done.name
    assert any(one["payload"]["store"] == str(store) for one in grown)
    assert f"| {target_words(TARGETS[1])} | 3 |" in pages["transfer-llvm"]


def test_settings_take_no_credentials_and_no_empty_list():
    from pydantic import ValidationError

    from flows.learning_settings import RetrainSettings, TransferSettings
    from tilework.errors import StoreError

    for form in (RetrainSettings, TransferSettings):
        with pytest.raises(ValidationError):
            form(stores=())
        with pytest.raises(StoreError, match="holds credentials"):
            form(stores=("s3://user:secret@bucket/records",))


def command(*arguments):
    from flows.cli.app import app

    return CliRunner().invoke(app, list(arguments))


def test_retrain_and_transfer_as_commands(store, believed):
    done = command("retrain", str(store))
    assert done.exit_code == 0 and "is champion now: so it was said" in done.output
    assert "not judged" in done.output
    done = command("retrain", str(store), "--json")
    (found,) = json.loads(done.stdout)
    assert found["promoted"] is False and "learnt from just these records" in found["verdict"]
    done = command("evaluate-transfer", str(store), "--only", TARGET)
    assert done.exit_code == 0 and "too few workloads: nothing could be judged" in done.output
    done = command("evaluate-transfer", str(store), "--only", "cuda")
    assert done.exit_code == 2 and "'cuda' is no target or device" in done.output
    done = command("model", "list", "--store", str(store), "--history")
    assert done.exit_code == 0 and "champion" in done.output and "so it was said" in done.output


@pytest.fixture
def registry(store):
    """Two models on cards, the first of them champion."""
    models = RecordStore(store).models
    names = []
    for number in range(2):
        judged = Judged(TARGET, 9, {"draft": (0.8, 0.9), "model": (0.9, 0.95)}, (0.0, 0.1, 0.2))
        card = Card(
            "llvm", datetime.now(UTC), "1", "abc", 6, "xgb", records=5, held=9, anywhere=True,
            taught=(Taught(TARGET, "a-cpu", 9, 5),), judged=(judged,), reason=f"reason {number}",
        )  # fmt: skip
        names.append(models.keep(card, json.dumps({"number": number})))
    models.promote(names[0], by="test")
    return str(store), names


def test_models_are_listed_shown_and_compared(registry):
    store, (first, second) = registry
    done = command("model", "list", "--store", store)
    assert first in done.output and "reason 1" in done.output and "not promoted" in done.output
    found = json.loads(command("model", "list", "--store", store, "--json").stdout)
    assert found["champions"] == {"llvm": first} and len(found["models"]) == 2
    done = command("model", "show", "--store", store)
    assert (
        done.exit_code == 0 and first in done.output and "+0.100 (+0.000, +0.200)" in done.output
    )
    done = command("model", "show", second[:9], "--store", store, "--json")
    assert json.loads(done.stdout)["name"] == second
    done = command("model", "compare", "champion", second, "--store", store)
    assert done.exit_code == 0 and "0.900 0.950" in done.output


def test_a_champion_is_taken_back_by_one_command(registry):
    store, (first, _) = registry
    done = command("model", "rollback", "-m", "slow", "--store", store)
    assert done.exit_code == 0
    assert f"champion of llvm: none: searches begin with the draft alone (before: {first})" in (
        done.output
    )
    done = command("model", "rollback", "--store", store)
    assert done.exit_code == 2 and "there is no champion" in done.output
    done = command("model", "rollback", "cuda", "--store", store)
    assert done.exit_code == 2 and "no model of kind 'cuda' is champion" in done.output


def test_what_cannot_be_promoted_is_one_line(registry):
    store, (_, second) = registry
    done = command("model", "promote", second, "--store", store)
    assert done.exit_code == 2 and f"{second!r} is not promoted" in done.output.replace("\n", "")
    for words, said in (
        (("promote", "llvm-000000000000"), "there is no model"),
        (("show", "nothing"), "there is no model"),
        (("compare", "llvm-", "champion"), "write more of the name"),
    ):
        done = command("model", *words, "--store", store)
        assert done.exit_code == 2 and said in done.output
        assert "Traceback" not in done.output
    done = command("model", "list", "--store", f"{store}-none")
    assert done.exit_code == 2 and "there is no record store" in done.output


def test_a_store_without_models_says_how_to_make_one(store):
    done = command("model", "list", "--store", str(store))
    assert done.exit_code == 0 and "no models; `tilework retrain" in done.output
    done = command("model", "show", "--store", str(store))
    assert done.exit_code == 2 and "there is none" in done.output
