"""``python -m flows.cli``: the command line without its console script."""

from flows.cli import main

main()
