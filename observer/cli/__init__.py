"""The command line: every verb, what it prints and what it exits with."""

from observer.cli.main import main

__all__ = ["main"]
