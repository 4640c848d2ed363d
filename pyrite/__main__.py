"""``python -m pyrite`` is the command line, which is also how torchrun starts it."""

from pyrite.cli.app import main

main()
