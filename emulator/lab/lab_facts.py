"""What a lab was made of, as facts for people and for the record of a run: names, versions and hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from emulator.lab import build_image, build_kernel, build_layer, kernel_store, programs
from emulator.lab.kernel_store import KernelRecord
from emulator.lab.lab_root import LabRoot, shown
from emulator.system import bounded_file

PACKAGE_LISTS = ("var/lib/dpkg/status", "lib/apk/db/installed", "var/lib/rpm/rpmdb.sqlite", "var/lib/rpm/Packages")
"""Where Debian, Alpine and those with RPM keep the list of what is installed."""
RELEASES = ("etc/os-release", "usr/lib/os-release")


def of_layer(folder: Path) -> dict[str, object]:
    """A layer's packages with their versions. Raises LabError for a spoilt one."""
    layer = build_layer.load(folder)
    return {"layer": folder.name, "packages": layer.packages, "not_configured": list(layer.unconfigured)}


def packages_text(facts: Mapping[str, object]) -> str:
    """The packages of `of_layer` in one line."""
    packages, failed = facts["packages"], facts["not_configured"]
    assert isinstance(packages, dict)
    assert isinstance(failed, list)
    text = shown([f"{name} {version}" for name, version in packages.items()])
    return text + (f"; dpkg could not configure {shown(failed)}" if failed else "")


def of_root(root: LabRoot, used: Iterable[str] = ()) -> dict[str, str]:
    """Where a lab's programs came from, one text for each fact.

    Of what Longhaul did not build these are: the system's name, the hash of its list of packages, and the hash of each
    program in `used`.
    """
    choice = root.choice
    facts = {"programs": choice.option or "the lab's image", "kernel": f"{root.linux.parent.name} ({choice.config})"}
    if record := kernel_store.record_of(root.linux.parent) if choice.kernel else None:
        facts |= of_kernel(root.linux.parent.name, record)
    if not choice.host:
        facts["image"] = build_image.place().name
    if root.layer:
        layer = build_layer.load(root.layer.parent)
        facts |= {"layer": root.layer.parent.name, "layer's record": digest(root.layer.parent / build_layer.RECORD)}
        facts |= {f"package {name}": version for name, version in layer.packages.items()}
    if choice.host or choice.folder:
        facts |= _of_foreign(root.folders[0])
        files = {name: programs.found(name, root) for name in dict.fromkeys(used)}
        facts |= {f"program {name}": f"{file}, {digest(file)}" for name, file in files.items() if file}
    return facts


def of_kernel(id: str, record: KernelRecord) -> dict[str, str]:
    """A kernel of the user's own, one text for each fact."""
    facts = {
        "kernel": f"{id} (Linux {record.version}, {record.config})",
        "kernel's mode": record.mode,
        "kernel's source": f"{record.source} {record.package_version}".rstrip(),
        "kernel's commit": f"{record.commit} {record.diff}".rstrip(),
        "kernel's patches": ", ".join(record.patches),
        "kernel's fragments": ", ".join(record.fragments),
        "kernel's own congestion controls": ", ".join(record.sources),
    }
    return {name: text for name, text in facts.items() if text}


def of_id(id: str) -> dict[str, str]:
    """As `of_kernel`, by the id of a kernel that is there; "" is Longhaul's own."""
    folder = kernel_store.folder_of(id) if id else build_kernel.place()
    record = kernel_store.record_of(folder)
    return (
        of_kernel(id, record) if record else {"kernel": folder.name, "kernel's source": build_kernel.source_version()}
    )


def _of_foreign(root: Path) -> dict[str, str]:
    """A root file system that Longhaul did not build: what it calls itself, and the hash of its list of packages."""
    facts = {"system": next(filter(None, (_name(root / path) for path in RELEASES)), "unknown")}
    for path in PACKAGE_LISTS:
        if value := digest(root / path):
            facts[f"/{path}"] = value
    return facts


def _name(file: Path) -> str:
    """PRETTY_NAME of os-release(5); "" without it."""
    try:
        lines = bounded_file.read_text(file, bounded_file.RELEASE, errors="replace").splitlines()
    except OSError:
        return ""
    named = (line.partition("=")[2] for line in lines if line.startswith("PRETTY_NAME="))
    return next(named, "").strip("\"'")


def digest(file: Path) -> str:
    """SHA-256 of a regular file; "" of what cannot be read."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as stream:
        try:
            return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
        except OSError:
            return ""
