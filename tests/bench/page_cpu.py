"""By hand: the CPU time that an open page costs the browser and the daemon, with 32 lanes of the wire engine.

As root: namespaces of its own, a real `longhaul serve`, Debian's chromium without a GPU. The daemon's share is told
before a page is open, too. The CPU time of a process does not count what other programs take, so other load hardly
changes it. Takes twice the seconds that are asked for, and half a minute more.

Example:
  sudo .venv/bin/python tests/bench/page_cpu.py --lanes 32 --seconds 60
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from helped import parser
from playwright.sync_api import Page, expect

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser_visit import chromium, log_in  # noqa: E402
from support.own_namespaces import OWN  # noqa: E402

LONGHAUL = str(ROOT / ".venv/bin/longhaul")
STATE = Path("/run/longhaul-page-cpu")
URL = "http://127.0.0.1:8080"
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
PATIENCE_MS = 120_000
SETTLED_S = 10


def star(lanes: int) -> str:
    """A topology of so many virtual lanes."""
    sites = "".join(f"  site-{n:02}: {{rtt: {10 * n}ms}}\n" for n in range(1, lanes + 1))
    return f"name: star\nhub: hub\nlanes:\n{sites}"


def cpu_s(pid: int) -> float:
    """The CPU time of a process and of its children that have ended, in s (proc_pid_stat(5), fields 14 to 17)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def browser_cpu_s() -> float:
    """The CPU time of all of chromium's processes in this process table, in s."""
    names = {pid: (pid / "comm").read_text() for pid in Path("/proc").glob("[0-9]*")}
    return sum(cpu_s(int(pid.name)) for pid, name in names.items() if name.startswith("chrom"))


def percent(read: Callable[[], float], seconds: float) -> float:
    """The share of one CPU that is spent meanwhile, in percent."""
    return percents([read], seconds)[0]


def percents(reads: list[Callable[[], float]], seconds: float) -> list[float]:
    """The same for several, at the same time."""
    begun, before = time.monotonic(), [read() for read in reads]
    time.sleep(seconds)
    took_s = time.monotonic() - begun
    return [100 * (read() - old) / took_s for read, old in zip(reads, before, strict=True)]


@contextmanager
def served(lanes: int) -> Iterator[int]:
    """The pid of a daemon whose lanes are up."""
    (topology := STATE / "star.yaml").write_text(star(lanes))
    subprocess.run([LONGHAUL, "up", str(topology)], check=True, stdout=subprocess.DEVNULL)
    with subprocess.Popen([LONGHAUL, "serve", "--listen", URL.rpartition("/")[2]], stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout and daemon.stdout.readline()
        try:
            yield daemon.pid
        finally:
            daemon.terminate()
            daemon.wait()
            subprocess.run([LONGHAUL, "down"], check=True, stdout=subprocess.DEVNULL)


def open_page(page: Page, lanes: int) -> None:
    """The first page, once it has drawn all lanes."""
    page.set_default_timeout(PATIENCE_MS)
    log_in(page, URL, (STATE / "token").read_text().strip())
    expect(page.locator("#table tbody tr")).to_have_count(lanes, timeout=PATIENCE_MS)
    time.sleep(SETTLED_S)


def measure(lanes: int, seconds: float) -> None:
    """One run and its figures. In namespaces of its own."""
    STATE.mkdir()
    os.environ["LONGHAUL_STATE"] = str(STATE)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with served(lanes) as pid:
        time.sleep(SETTLED_S)
        print(f"{lanes} lanes, no page: daemon {percent(lambda: cpu_s(pid), seconds):.1f} % of a CPU", flush=True)
        with chromium() as browser:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            open_page(page, lanes)
            daemon, shown = percents([lambda: cpu_s(pid), browser_cpu_s], seconds)
            print(f"{lanes} lanes, one page: daemon {daemon:.1f} %, browser {shown:.1f} %", flush=True)


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("--lanes", type=int, default=32, help="of the star; 32 unless said")
    said.add_argument("--seconds", type=float, default=60, help="for which the CPU time is counted; 60 unless said")
    said.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = said.parse_args()
    if os.geteuid() != 0:
        said.error("it needs root")
    if asked.inside:
        measure(asked.lanes, asked.seconds)
    else:
        script = 'mount -t tmpfs run /run && exec "$@"'
        argv = [*OWN, "sh", "-c", script, "sh", sys.executable, *sys.argv, "--inside"]
        sys.exit(subprocess.run(argv, check=False).returncode)
