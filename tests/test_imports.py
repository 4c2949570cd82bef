"""Imports point one way, and heavy or dangerous modules have one door each."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "emulator").rglob("*.py"))
}

LAYERS = [
    [
        "units",
        "errors",
        "clock",
        "paths",
        "durable",
        "values",
        "journal",
        "notify",
        "alarm",
        "lateness",
        "flows",
        "profile",
    ],
    ["distributions", "lossmodels", "cities", "bursts"],
    ["places", "schedule"],
    ["impairment"],
    ["model", "aqm"],
    ["egress"],
    ["netem", "change", "timeline", "traces", "specimen"],
    ["wire"],
    ["axes", "state", "analysis", "confidence", "latency", "rfc6349", "intervals", "wireops"],
    ["verdict", "laws"],
    ["advice", "detectors", "curves"],
    ["ops", "queueops", "proof"],
    ["wireplan", "liveplan"],
    ["plan", "goal", "tuning"],
    ["moment"],
    [
        "pathkey",
        "kernel",
        "refusal",
        "scope",
        "yamltree",
        "fields",
        "topologyform",
        "sweepform",
        "scheduleform",
        "topologytree",
    ],
    ["inventory", "session"],
    ["reconcile", "status", "mend", "topologyfile", "chart"],
    ["lanepatch", "livestats", "promptness"],
    ["desire"],
    ["history", "follow"],
    ["ledger"],
    ["hosts", "measure", "cells"],
    ["formats", "bothways", "repeats"],
    ["results", "conclude", "compare", "prober"],
    ["appliance", "reverter", "grid", "report", "echo"],
    ["daemon"],
    ["watchdog"],
    ["cell", "mininet", "client", "demohere", "survey", "presets", "report_summary"],
    ["plots_style"],
    ["plots_throughput", "plots_ramp", "plots_delays", "plots_matrix", "report_svg"],
    ["sweep", "verify", "prove", "plots", "report_html", "arithmetic", "lab"],
    ["record"],
    ["rendering", "farm"],
    ["cli_output", "cli_options", "cli_complete", "cli_types"],
    ["cli_core", "cli_set", "cli_safety", "cli_nics", "cli_prove", "cli_places", "cli_schedule"],
    ["cli_record", "cli_replay"],
    ["cli_axes"],
    ["cli_verify", "cli_sweep", "cli_runs", "cli_paths", "cli_rfc6349", "cli_lab", "cli_serve"],
    ["cli"],
    ["__main__", "demo"],
]
"""From the innermost to the outermost; a part may import only from its own layer or from further in."""

PURE = (
    "record.delay", "record.goodness", "record.likeness", "record.loss", "record.probes", "record.profile",
    "record.replay",
    "units", "errors", "values", "distributions", "lossmodels", "cities", "bursts", "places", "schedule", "impairment",
    "model", "aqm", "netem", "change", "timeline", "traces", "chart", "state", "ops", "queueops", "goal", "plan",
    "refusal", "scope", "mend", "inventory", "tuning", "analysis", "verdict", "laws", "confidence", "detectors",
    "advice", "axes", "curves", "rfc6349", "intervals", "proof", "wire", "wireops", "wireplan", "liveplan", "moment",
    "lateness", "flows", "profile", "egress", "specimen",
)  # fmt: skip
"""Standard library only; and of that nothing that reads files, clocks, sockets or dice."""

IMPURE = {"os", "pathlib", "time", "random", "socket", "subprocess", "secrets", "threading", "io", "shutil", "sys"}
DOORS = {
    "pyroute2": ("emulator.kernel.",),
    "subprocess": ("emulator.measure.process", "emulator.lab.", "emulator.kernel.wire"),
    "mininet": ("emulator.mininet",),
    "matplotlib": ("emulator.plots",),
    "hdrh": ("emulator.latency",),
    "distributed": ("emulator.farm",),
    "pydantic": (
        "emulator.fields",
        "emulator.topologyform",
        "emulator.sweepform",
        "emulator.scheduleform",
        "emulator.topologyfile",
        "emulator.hosts.profiles",
        "emulator.record.forms",
        "emulator.record.file",
    ),
}


@cache
def imports(module: str) -> set[str]:
    """The full names that a module imports when it runs; those under TYPE_CHECKING are left out."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found: set[str] = set()
    for node in ast.walk(_without_type_checking(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            full = ".".join(part for part in (base, node.module or "") if part)
            found |= {f"{full}.{alias.name}" if f"{full}.{alias.name}" in MODULES else full for alias in node.names}
    return found


def _without_type_checking(tree: ast.Module) -> ast.Module:
    tree.body = [n for n in tree.body if not (isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test))]
    return tree


def layer(module: str) -> int:
    """The layer that a module of ours belongs to, by its first name below `emulator`."""
    part = module.split(".")[1]
    found = [number for number, parts in enumerate(LAYERS) if part in parts]
    assert found, f"{module} has no place in LAYERS yet: give it one"
    return found[0]


@pytest.mark.parametrize("module", [m for m in MODULES if m != "emulator"])
def test_imports_point_inwards(module: str) -> None:
    ours = {name for name in imports(module) if name.startswith("emulator.")}
    outward = sorted(name for name in ours if layer(name) > layer(module))
    if module == "emulator.cli_core":
        outward.remove("emulator.cli")  # the completion script describes the whole command line
    assert outward == []


WEB = sorted((ROOT / "web").glob("*.py"))


@pytest.mark.parametrize("path", WEB, ids=lambda path: path.stem)
def test_the_web_goes_by_the_use_cases_alone(path: Path) -> None:
    found = re.findall(
        r"^\s*(?:from|import) emulator\.(\w+)|^from emulator import (.+)$", path.read_text(), re.MULTILINE
    )
    names = {name.strip() for one in found for part in one for name in part.split(",") if part}
    assert names & {"kernel", "plan", "reconcile", "goal", "refusal", "lab"} == set()
    assert [name for name in names if name.startswith("cli")] == []


def test_only_the_serve_command_knows_the_web() -> None:
    users = {m for m in MODULES if {"web"} & {name.split(".")[0] for name in imports(m)}}
    assert users == {"emulator.cli_serve", "emulator.demo"}


@pytest.mark.parametrize("part", PURE)
def test_pure_parts_use_the_standard_library_only_and_do_no_io(part: str) -> None:
    if f"emulator.{part}" not in MODULES:
        pytest.fail(f"emulator/{part}.py is gone: take it out of PURE")
    roots = {name.split(".")[0] for name in imports(f"emulator.{part}")}
    assert roots - {"emulator"} <= sys.stdlib_module_names
    assert roots & IMPURE == set()


@pytest.mark.parametrize("library", DOORS)
def test_every_door_is_used_by_its_keepers_only(library: str) -> None:
    users = {m for m in MODULES if library in {name.split(".")[0] for name in imports(m)}}
    assert {m for m in users if not m.startswith(DOORS[library])} == set()
    assert users, f"nobody uses {library} any more"


def test_the_command_line_starts_without_heavy_imports() -> None:
    code = "import emulator.cli, sys; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert (
        loaded
        & {"pydantic", "pyroute2", "matplotlib", "hdrh", "rich", "yaml", "distributed", "asyncio", "multiprocessing"}
        == set()
    )
    assert "click" in loaded


def test_the_kernel_door_loads_the_parts_of_pyroute2_that_it_needs() -> None:
    code = "import emulator.kernel.netlink, sys; print(*sys.modules); import pyroute2; pyroute2.NDB"
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "pyroute2.iproute.linux" in loaded
    assert {
        name for name in loaded if name.startswith(("pyroute2.ndb", "pyroute2.conntrack", "pydantic", "yaml"))
    } == set()


def test_the_readmes_source_layout_names_every_module_and_no_other() -> None:
    shown: set[Path] = set()
    for row in re.findall(r"^\| (`(?:emulator|web)/.*?) \|", (ROOT / "README.md").read_text(), re.MULTILINE):
        first, *rest = re.findall(r"`([^`]+)`", row)
        folder = ROOT / first if first.endswith("/") else (ROOT / first).parent
        for name in [(ROOT / first).name, *rest]:
            found = [folder] if folder.name == name else list(folder.glob(name))
            assert found, f"README.md: there is no {name} in {folder.name}/"
            shown |= {path for one in found for path in (one.rglob("*.py") if one.is_dir() else [one])}
    ours = {path for part in ("emulator", "web") for path in (ROOT / part).rglob("*.py") if "__" not in path.name}
    nameless = ", ".join(str(path.relative_to(ROOT)) for path in sorted(ours - shown))
    assert not nameless, f"not in README.md, 'The source, in reading order', yet: {nameless}"
