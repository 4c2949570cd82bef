"""A program of several modules as an argument of python3, so that a host needs Python and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from emulator.errors import MeasureError
from emulator.hosts.host import Host
from emulator.hosts.tools.process import Completed

_CARRIER = """import json, sys, types
for name, text in json.loads({modules!r}):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
sys.exit(module.main(sys.argv[1:]))
"""
_TOP = Path(__file__).parents[3]


class CarriedProgram(Struct, frozen=True):
    """A program by its name in messages, and the full names of its modules in the order of their imports.

    It runs `main` of the last one, which prints one JSON document: its report, or `{"error": TEXT}`.
    """

    name: str
    modules: Sequence[str]

    @property
    def text(self) -> str:
        """The program for `python3 -c`."""
        texts = [[name, (_TOP / Path(*name.split("."))).with_suffix(".py").read_text("utf-8")] for name in self.modules]
        return _CARRIER.format(modules=json.dumps(texts))

    @contextmanager
    def told_shortly(self) -> Iterator[None]:
        """Leave the program's text out of messages, which name the whole command, and the JSON of its report."""
        try:
            yield
        except MeasureError as error:
            said = str(error).replace(self.text, self.name.upper().replace(" ", "-"))
            raise MeasureError(re.sub(r'\{"error": "(.*)"\}', r"\1", said)) from None

    def report(self, done: Completed, host: Host) -> Mapping[str, Any]:
        """What one end printed. Raises MeasureError with its own words when it failed."""
        try:
            report: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            lines = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()
            raise MeasureError(f"the {self.name} on {host.name} printed no report, but: {lines[-1]}") from None
        if "error" in report:
            raise MeasureError(f"the {self.name} on {host.name}: {report['error']}")
        return report
