"""Two hosts on paper: what their tools answer is what the test says, so that a late machine can be made up."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from msgspec import Struct, field

from emulator.analysis.transfer import Transfer
from emulator.errors import MeasureError
from emulator.hosts.tools import nstat
from emulator.hosts.tools.process import Completed
from emulator.hosts.tools.workload import Ends, Load
from support.folders import CAPTURES
from support.made_results import TRANSFER

PING = (CAPTURES / "ping-precise-32ms.txt").read_text()
IRTT = (CAPTURES / "irtt-30-50ms.json").read_text()
SS = (CAPTURES / "ss-32ms-1.txt").read_text()
SILENT = "4 packets transmitted, 0 received, 100% packet loss, time 3001ms\n"
OPEN_TIMEOUT = "Error: [OpenTimeout] no reply from server\n"
TCP = "protocol  size sockets  memory press\nTCP       2240      1      0 no\n"
Answer = Callable[[Sequence[str]], Completed]


def completed(stdout: str = "", stderr: str = "", exit_code: int = 0) -> Completed:
    """A program that has ended."""
    return Completed(("tool",), stdout, stderr, exit_code)


class Started(Struct):
    """A program that runs until it is waited for."""

    answer: Completed

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def running(self) -> bool:
        """Until its end."""
        return False

    def wait(self, timeout_s: float) -> Completed:
        """Its output."""
        return self.answer


class FakeHost(Struct):
    """A host whose tools do well, but for the first answers that the test gives for a tool.

    `answers` holds by tool ("ping", "irtt", "ss") what comes first, one after another; `calls` what was asked.
    """

    name: str
    interface: str = "eth0"
    answers: dict[str, list[Completed | Exception]] = field(default_factory=dict)
    calls: list[list[str]] = field(default_factory=list)

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:
        """What the test said, or what goes well."""
        self.calls.append(list(argv))
        measures = argv[0] == "ss" or argv[:2] == ["irtt", "client"] or (argv[0] == "ping" and "-V" not in argv)
        if measures and (first := self.answers.get(argv[0])):
            answer = first.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return completed(self._well(argv))

    def start(self, argv: Sequence[str]) -> Any:
        """The same, of a program that is waited for."""
        return Started(self.run(argv, 0))

    def called(self, *words: str) -> list[list[str]]:
        """The calls that begin so."""
        return [argv for argv in self.calls if argv[: len(words)] == list(words)]

    def read(self, file: str, last_bytes: int | None = None) -> str:
        """TCP has memory, and a CPU did something."""
        return TCP if file == nstat.PROTOCOLS else "cpu0 1 1 1 1 1 1 1 1 0 0\n"

    def read_sysctl(self, name: str) -> str:
        """The same three numbers for all."""
        return "4096 131072 6291456"

    def is_listening(self, port: int) -> bool:
        """Always."""
        return True

    def counters(self) -> dict[str, int]:
        """Nothing happened."""
        return dict.fromkeys(nstat.WATCHED, 0)

    @staticmethod
    def _well(argv: Sequence[str]) -> str:
        return {"ping": PING, "irtt": IRTT, "ss": SS}.get(argv[0], "")


class FakeWorkload(Struct, frozen=True):
    """Carries what `made_results.TRANSFER` says, over two connections; starts only after `refusals` failures."""

    refusals: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "fake"

    def check(self, load: Load) -> None:
        """Carries everything."""

    def title(self, load: Load) -> str:
        """The number of streams."""
        return f"{load.streams} streams"

    def part(self, load: Load) -> str:
        """The number of streams."""
        return str(load.streams)

    @contextlib.contextmanager
    def start(self, ends: Ends, load: Load) -> Iterator[FakeWork]:
        """At work at once."""
        if self.refusals:
            raise MeasureError(self.refusals.pop(0))
        yield FakeWork()


class FakeWork:
    """At work, and never at its end while somebody looks."""

    port, connections = 5201, 2

    def is_running(self) -> bool:
        """Always."""
        return True

    def wait(self) -> tuple[Transfer, ...]:
        """One direction."""
        return (TRANSFER,)

    def raw(self) -> Any:
        """Nothing."""
        return json.loads("{}")
