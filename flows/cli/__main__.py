"""``python -m flows.cli``: the command line without its console script."""

from tilework.__main__ import main

main()
