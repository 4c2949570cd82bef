"""Imports point one way between rooms, and each third-party library is used in the rooms that own it.

A room is a package of `emulator/`; its `__init__` says what belongs there. A new file needs no registration here.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from functools import cache

import pytest
from support.folders import ROOT
from support.made_results import MS, cell_spec

MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for top in ("emulator", "web")
    for path in sorted((ROOT / top).rglob("*.py"))
}

FLOORS = [
    ["errors", "units"],
    ["system"],
    ["model"],
    ["config", "lab"],
    ["plan"],
    ["kernel", "analysis"],
    ["hosts"],
    ["control"],
    ["experiment"],
    ["report", "record"],
    ["mininet", "web"],
    ["cli"],
    ["pytest_plugin", "__main__"],
]
"""From the lowest to the highest. A room imports from lower floors and from itself, never from its neighbours."""

FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
LONGEST_FILE = 400
MOST_FILES_AT_THE_TOP = 6

PURE = ("model", "plan", "analysis")
"""The standard library and the classes of values only; and nothing that reads files, clocks, sockets or chance."""
IMPURE = {"os", "pathlib", "time", "random", "socket", "subprocess", "secrets", "threading", "io", "shutil", "sys"}

OWNERS = {
    "click": {"cli", "pytest_plugin"},
    "distributed": {"experiment"},
    "flask": {"web"},
    "hdrh": {"analysis"},
    "markdown_it": {"cli"},
    "matplotlib": {"report"},
    "mininet": {"mininet"},
    "prometheus_client": {"web"},
    "pydantic": {"config", "record", "web"},
    "pyroute2": {"kernel"},
    "pytest": {"pytest_plugin"},
    "rich": {"cli"},
    "waitress": {"web"},
    "werkzeug": {"web"},
    "yaml": {"config", "record"},
}
"""Which rooms may use a library."""
VALUES = "msgspec"
"""Its `Struct` is the class of values in every room: a dataclass takes thirty times as long to make, and a command
makes a hundred of them before it does anything."""
FROZEN_DATACLASSES = {
    "emulator.errors": "users' pytest loads it with the plugin",
    "emulator.experiment.engine_lateness": "pydantic makes an answer of the web from it",
    "emulator.experiment.rtt_certificate": "pydantic makes answers of the web from them",
    "emulator.lab.landlock": "runs with the standard library alone",
    "emulator.pytest_plugin.values": "users' pytest loads it with the plugin",
    "web.certificates": "pydantic makes answers of the web from them",
}

PROCESS_STARTERS = {"emulator.hosts.tools.process", "emulator.kernel.engine_client"}
"""Who may use `subprocess`, besides the lab."""


def room(module: str) -> str:
    """The room of a module by its full name: `emulator.plan.ops` is in `plan`, `web.app` in `web`."""
    top, _, rest = module.partition(".")
    return "web" if top == "web" else rest.partition(".")[0]


@cache
def imports(module: str, *, types: bool = False) -> set[str]:
    """The full names that a module imports when it runs; with `types` also those under TYPE_CHECKING."""
    path = MODULES[module]
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree if types else _without_type_checking(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            full = node.module or ""
            found |= {f"{full}.{alias.name}" if f"{full}.{alias.name}" in MODULES else full for alias in node.names}
    return found


def _without_type_checking(tree: ast.Module) -> ast.Module:
    tree.body = [n for n in tree.body if not (isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test))]
    return tree


def ours(module: str, *, types: bool = False) -> set[str]:
    """The modules of ours that a module imports."""
    return {
        name for name in imports(module, types=types) if name.partition(".")[0] in ("emulator", "web") and room(name)
    }


def test_every_room_has_a_floor() -> None:
    rooms = {room(module) for module in MODULES} - {""}
    assert rooms == set(FLOOR_OF)


@pytest.mark.parametrize("name", sorted(FLOOR_OF))
def test_no_import_points_upward(name: str) -> None:
    upward = [
        f"{module} imports {other}"
        for module in MODULES
        if room(module) == name
        for other in sorted(ours(module))
        if room(other) != name and FLOOR_OF[room(other)] >= FLOOR_OF[name]
    ]
    assert upward == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles({module: ours(module, types=True) - {module} for module in MODULES}) == []


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Every module that reaches itself, with the way there; a package's name stands for its `__init__`."""
    found = []
    for start in graph:
        ways = [[start]]
        seen = {start}
        while ways:
            way = ways.pop()
            for other in sorted(graph.get(way[-1], ())):
                if other == start:
                    found.append([*way, other])
                elif other not in seen:
                    seen.add(other)
                    ways.append([*way, other])
    return found


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("library", sorted(OWNERS))
def test_a_library_is_used_by_its_owners_only(library: str) -> None:
    users = {room(m) for m in MODULES if library in {name.partition(".")[0] for name in imports(m)}}
    assert users == OWNERS[library]


def test_every_library_has_an_owner() -> None:
    used = {name.partition(".")[0] for module in MODULES for name in imports(module)}
    assert used - sys.stdlib_module_names - {"emulator", "web"} <= {*OWNERS, VALUES}


def test_values_are_quick_to_make() -> None:
    frozen = {module for module, path in MODULES.items() if "@dataclass(frozen=True" in path.read_text()}
    assert frozen == FROZEN_DATACLASSES.keys()


def test_processes_are_started_in_few_places() -> None:
    users = {m for m in MODULES if "subprocess" in imports(m) and room(m) != "lab"}
    assert users == PROCESS_STARTERS


@pytest.mark.parametrize("module", [m for m in MODULES if room(m) in PURE])
def test_pure_rooms_do_no_io(module: str) -> None:
    allowed = {VALUES, "hdrh"} if room(module) == "analysis" else {VALUES}
    roots = {name.partition(".")[0] for name in imports(module)} - allowed
    assert roots - {"emulator"} <= sys.stdlib_module_names
    assert roots & IMPURE == set()


WEB = [module for module in MODULES if module.partition(".")[0] == "web"]


@pytest.mark.parametrize("module", WEB)
def test_the_web_uses_the_use_cases_and_not_the_kernel(module: str) -> None:
    assert {room(name) for name in ours(module)} & {"kernel", "lab", "cli"} == set()


def test_only_the_serve_command_knows_the_web() -> None:
    users = {m for m in MODULES if room(m) != "web" and "web" in {room(name) for name in ours(m)}}
    assert users == {"emulator.cli.serve", "emulator.cli.demo_server"}


def test_the_top_is_small_and_files_are_short() -> None:
    assert len(list((ROOT / "emulator").glob("*.py"))) <= MOST_FILES_AT_THE_TOP
    long = {m: n for m, path in MODULES.items() if (n := len(path.read_text().splitlines())) > LONGEST_FILE}
    assert long == {}


def test_every_room_says_what_belongs_there() -> None:
    for name in FLOOR_OF.keys() - {"errors", "units", "mininet", "__main__", "web"}:
        text = ast.get_docstring(ast.parse((ROOT / f"emulator/{name}/__init__.py").read_text())) or ""
        assert "May import:" in text and "Never here:" in text, name


def test_the_command_line_starts_without_heavy_imports() -> None:
    code = "import emulator.cli.main, sys; print(*{m.split('.')[0] for m in sys.modules})"
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
    assert "pyroute2.netlink.rtnl.tcmsg" in loaded
    unwanted = ("pyroute2.iproute", "pyroute2.ndb", "pyroute2.conntrack", "asyncio", "pydantic", "yaml")
    assert {name for name in loaded if name.startswith(unwanted)} == set()


CELL = """
import json, sys
from emulator.control import local
from emulator.experiment import run_cell
from emulator.experiment.cell_spec import CellSpec
spec = CellSpec.from_json(json.loads(sys.stdin.read()))
assert CellSpec.from_json(json.loads(json.dumps(spec.for_lab()))) == spec
print(*sys.modules)
"""


def test_a_cell_in_its_lab_loads_neither_yaml_nor_schemas() -> None:
    """They took a third of its start."""
    spec = json.dumps(cell_spec(20 * MS).for_lab())
    ran = subprocess.run([sys.executable, "-c", CELL], input=spec, capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "emulator.experiment.run_cell" in loaded
    assert loaded & {"yaml", "pydantic", "click", "rich", "flask"} == set()
