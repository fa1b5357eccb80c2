"""``python -m pumice`` is the command line."""

from pumice.cli import main

main()
