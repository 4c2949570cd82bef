"""The software bill of materials of a release, as CycloneDX 1.5 in JSON: the same input gives the same bytes."""

from __future__ import annotations

import json
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from emulator import __version__

UPLOT = "web/static/vendor/uplot/VERSION"


Images = list[tuple[str, str, list[tuple[str, str]]]]
"""(name of the file, SHA-256, Debian's packages in it as (package, version)) of each OCI image."""


def document(root: Path, epoch: int, debian: list[tuple[str, str, str, str]], images: Images) -> str:
    """The document for the clone at `root`. `epoch`: the release's time in s; `debian`: (package, version, licence,
    SHA-256 or "") of what the binaries hold."""
    own = {"type": "application", "bom-ref": "longhaul", "name": "longhaul", "version": __version__} | _license("MIT")
    parts = [*_python(root), *_rust(root), *(_debian(*one) for one in debian), _uplot(root)]
    depends = [{"ref": "longhaul", "dependsOn": sorted(str(part["bom-ref"]) for part in parts)}]
    for image in images:
        container, packages = _image(*image)
        known = {part["bom-ref"] for part in parts}
        parts += [container, *(part for part in packages if part["bom-ref"] not in known)]
        held = ["longhaul", *sorted(part["bom-ref"] for part in packages)]
        depends.append({"ref": container["bom-ref"], "dependsOn": held})
    parts.sort(key=lambda part: str(part["bom-ref"]))
    text = json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {"timestamp": datetime.fromtimestamp(epoch, UTC).isoformat(), "component": own},
            "components": parts,
            "dependencies": depends,
        },
        indent=2,
    )
    # The serial number has to be unique for each document: it is a function of the content.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, text)
    return text.replace("{\n", f'{{\n  "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",\n'
                               f'  "serialNumber": "urn:uuid:{serial}",\n', 1) + "\n"  # fmt: skip


def crates(root: Path) -> list[tuple[str, str, str]]:
    """The crates that are compiled into the engine: (name, version, SHA-256)."""
    locked = tomllib.loads((root / "emulator/engine/Cargo.lock").read_text("utf-8"))["package"]
    known = {one["name"]: one for one in locked}
    names = _reached("longhaul-wire", lambda name: known[name].get("dependencies", ())) - {"longhaul-wire"}
    return [(name, known[name]["version"], known[name]["checksum"]) for name in sorted(names - COMPILE_TIME)]


COMPILE_TIME = {"proc-macro2", "quote", "serde_derive", "syn", "unicode-ident"}
"""Crates of the lock file that only a feature which is switched off would use."""


def _rust(root: Path) -> list[dict[str, Any]]:
    return [
        _part("pkg:cargo", name, version, digest) | _license("MIT OR Apache-2.0")
        for name, version, digest in crates(root)
    ]


def _python(root: Path) -> list[dict[str, Any]]:
    """What a user's installation brings, in the versions of uv.lock. Python packages are installed beside the wheel."""
    locked = tomllib.loads((root / "uv.lock").read_text("utf-8"))["package"]
    known = {one["name"]: one for one in locked}
    names = _reached("longhaul", lambda name: [one["name"] for one in known[name].get("dependencies", ())])
    return [
        _part("pkg:pypi", name, known[name]["version"], known[name].get("sdist", {}).get("hash", "")[len("sha256:") :])
        for name in sorted(names - {"longhaul"})
    ]


def _reached(start: str, below: Any) -> set[str]:
    """All names that a name needs, and that those need."""
    found, todo = {start}, [start]
    while todo:
        new = set(below(todo.pop())) - found
        found |= new
        todo += sorted(new)
    return found


def _debian(name: str, version: str, licence: str, digest: str) -> dict[str, Any]:
    return _part("pkg:deb/debian", name, version, digest) | _license(licence)


def _image(name: str, digest: str, packages: list[tuple[str, str]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """An image, and the packages of Debian in it; each package has its licences in /usr/share/doc."""
    hashes = [{"alg": "SHA-256", "content": digest}]
    container = {"type": "container", "bom-ref": name, "name": name, "version": __version__, "hashes": hashes}
    found = [
        _part("pkg:deb/debian", package, version, "") for package, version in packages
        if package not in ("longhaul", "longhaul-lab")
    ]  # fmt: skip
    return container, found


def _uplot(root: Path) -> dict[str, Any]:
    version = (root / UPLOT).read_text("utf-8").split()[1].rstrip(",")
    return _part("pkg:npm", "uplot", version, "") | _license("MIT")


def _part(kind: str, name: str, version: str, digest: str) -> dict[str, Any]:
    address = f"{kind}/{name}@{quote(version, safe=':~')}"
    part: dict[str, Any] = {
        "type": "library", "bom-ref": address, "name": name, "version": version, "purl": address,
    }  # fmt: skip
    return part | ({"hashes": [{"alg": "SHA-256", "content": digest}]} if digest else {})


def _license(expression: str) -> dict[str, Any]:
    return {"licenses": [{"expression": expression}]}
