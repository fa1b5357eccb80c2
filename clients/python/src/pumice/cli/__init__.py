"""The command line ``pumice``. What it can do is in :mod:`pumice.cli.app`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with the code that :mod:`pumice.cli.exits` documents."""
    from pumice.cli.app import app

    try:
        app(prog_name="pumice")
    except BrokenPipeError:  # the reader of our output has gone, as in `pumice get jobs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
