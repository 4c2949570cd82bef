"""The command line of a benchmark: --help shows what it does, how long it takes, and an example, as its docstring."""

from __future__ import annotations

import argparse


def parser(doc: str | None) -> argparse.ArgumentParser:
    """One to which the benchmark adds its arguments."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
