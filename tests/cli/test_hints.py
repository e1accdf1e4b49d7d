"""What a command proposes at its end speaks of the same network, target and records."""

import shlex

from flows.cli.form import NetworkForm
from flows.cli.hints import machine_options, print_commands, store_option
from flows.cli.output import console, table


def test_defaults_are_not_said():
    assert machine_options("llvm -mcpu=native", None, "records") + NetworkForm().text == ""
    assert store_option("records") == ""


def test_all_that_was_given_is_said_and_survives_a_shell():
    form = NetworkForm(
        batch=4,
        layout="NCHW",
        shape=["x=1,3", "n=2"],
        value=["cached=1"],
        precision="int8",
        calibrate="my samples.npz",
        sparse="0.85",
        block="16x1",
    )
    assert shlex.split(machine_options("cuda -model=a100", 2, "my records") + form.text) == [
        *("--target", "cuda -model=a100", "--threads", "2", "--store", "my records"),
        *("--batch", "4", "--layout", "NCHW", "--shape", "x=1,3", "--shape", "n=2"),
        *("--value", "cached=1", "--precision", "int8", "--calibrate", "my samples.npz"),
        *("--sparse", "0.85", "--block", "16x1"),
    ]


def test_long_commands_stand_on_lines_of_their_own(capsys):
    print_commands([("tilework short", "first")])
    assert capsys.readouterr().out == f"  {'tilework short':54s} first\n"
    long = "tilework tune " + "x" * 150
    print_commands([("tilework short", "first"), (long, "then")])
    assert capsys.readouterr().out == f"  first:\n    tilework short\n  then:\n    {long}\n"


def test_brackets_in_cells_of_tables_are_text(capsys):
    console().print(table(["what"], [["pip install 'tilework[cuda13]'"]]))
    assert "tilework[cuda13]" in capsys.readouterr().out
