"""One module reads what others may have written; whatever else opens a file is listed here, with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from support.folders import ROOT

READERS = {"read_text", "read_bytes", "safe_load", "load_all"}

KERNEL = "files of /proc and /sys, which the kernel writes"
PACKAGE = "files of this package"
LAB = "the lab's own folder, which only its launcher and its guest see"
CACHE = "folders of the cache, which only its builder writes"

OWN_WAYS = {
    "emulator.cli.doc_pages": PACKAGE,
    "emulator.control.capture": "creates its files",
    "emulator.control.protected_sessions": KERNEL,
    "emulator.hosts.namespace": KERNEL,
    "emulator.hosts.tools.carried_program": PACKAGE,
    "emulator.hosts.ssh": PACKAGE,
    "emulator.hosts.tools.machine_facts": KERNEL,
    "emulator.kernel.capabilities": KERNEL,
    "emulator.kernel.netlink": KERNEL,
    "emulator.kernel.nic_facts": KERNEL,
    "emulator.kernel.sysfs_affinity": KERNEL,
    "emulator.lab.build_image": PACKAGE,
    "emulator.lab.build_layer": CACHE,
    "emulator.lab.build_kernel": f"{PACKAGE}, and {KERNEL}",
    "emulator.lab.cpu_usage": KERNEL,
    "emulator.lab.kernel_patches": f"{PACKAGE}; a user's patch, which was read with a bound before",
    "emulator.lab.kernel_source": "the source of a kernel, which is compiled and run",
    "emulator.lab.kernel_store": CACHE,
    "emulator.lab.kernel_workspace": f"{CACHE}; the source of a kernel",
    "emulator.lab.named_kernel": f"{PACKAGE}; {CACHE}; a user's files, which were read with a bound before",
    "emulator.lab.init": f"{LAB}; {KERNEL}",
    "emulator.lab.runtime": KERNEL,
    "emulator.record.recorder": "appends to the file that it created",
    "emulator.system.bounded_file": "the one reader",
    "emulator.system.clock": KERNEL,
    "emulator.system.lateness": KERNEL,
    "emulator.system.named_file": "appends to a file",
}
"""By module: what it reads without a bound."""


def reads(tree: ast.Module) -> Iterator[str]:
    """The calls that read or open a file by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            direct = last in READERS or name in ("open", "json.load", "io.open")
            opened = last == "open" and not name.startswith("os.") and "connection" not in name
            if (direct or opened) and not name.startswith("bounded_file."):
                yield name


def test_only_bounded_file_reads_what_others_may_have_written() -> None:
    found = {}
    for top in ("emulator", "web"):
        for path in sorted((ROOT / top).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            if names := sorted(set(reads(ast.parse(path.read_text())))):
                found[module] = names
    assert {module: names for module, names in found.items() if module not in OWN_WAYS} == {}
    assert OWN_WAYS.keys() - found.keys() == set(), "nothing is read there any more"


def of_the_locale(tree: ast.Module) -> Iterator[str]:
    """The calls that read or write text in the encoding of the user's locale: our files are in UTF-8."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or any(word.arg == "encoding" for word in node.keywords):
            continue
        name, given = ast.unparse(node.func).rpartition(".")[2], len(node.args)
        if (name == "read_text" and not given) or (name == "write_text" and given < 2):
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_text_is_utf_8_whatever_the_locale() -> None:
    found = {
        f"{file.relative_to(ROOT)}:{call}"
        for room in ("emulator", "web")
        for file in (ROOT / room).rglob("*.py")
        for call in of_the_locale(ast.parse(file.read_text("utf-8")))
    }
    assert found == set(), "name the encoding: utf-8"
