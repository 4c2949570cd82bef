"""The Debian packages of a release, made from the platform wheel: `longhaul` and `longhaul-lab`, for Debian 12 and 13.

Debian's own pydantic, Flask and pyroute2 are too old in 12, pyroute2 in 13 as well, and hdrhistogram is in neither.
So `longhaul` brings the Python packages of uv.lock, in an environment of its own with Debian's interpreter: whatever
starts `sys.executable` finds them, and no other program does. Three modules are compiled for one Python each; their
names tell which, so those for 3.11 and for 3.13 lie side by side in one tree, and one package serves both releases.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from email.parser import HeaderParser
from email.utils import format_datetime
from pathlib import Path

from click.shell_completion import get_completion_class

from emulator import __version__
from emulator.cli import man_pages
from emulator.cli.main import cli

ROOT = Path(__file__).resolve().parents[1]
PARTS = ROOT / "scripts/deb"
UV = Path(sys.executable).with_name("uv")
PYTHONS = ("3.11", "3.13")
"""Debian 12's and Debian 13's."""
GLIBC = "2_36"
"""Debian 12's: wheels for a newer one would not start there."""
REVISION = 1
"""Increase it when one version is packaged again, as for a fixed library; a new version starts with 1."""
UNUSED = ("pbr", "setuptools", "win-inet-pton")
"""What hdrhistogram and pyroute2 name as requirements without importing it on Linux."""
FROM_DEBIAN = {"pyyaml": "python3-yaml"}
"""Debian's is new enough, and has a libyaml that Debian keeps secure; the wheel brings one of its own."""
LIBRARIES = {
    "libc.so.6": "libc6", "libpthread.so.0": "libc6", "libdl.so.2": "libc6", "librt.so.1": "libc6",
    "libm.so.6": "libc6", "ld-linux-x86-64.so.2": "libc6", "linux-vdso.so.1": "libc6", "libgcc_s.so.1": "libgcc-s1",
}  # fmt: skip
"""The packages of the shared libraries that the compiled files may need."""
HOME = Path("usr/lib/longhaul")
SITE = HOME / "lib/python3/site-packages"
PREBUILT = SITE / "emulator/lab/prebuilt"
KEPT_FACTS = ("METADATA", "entry_points.txt")
"""Of a package's dist-info; the rest is about installing it, and differs between the two Pythons."""
COMMANDS = ("bridges-up", "bridges-down", "latency-on", "latency-off")
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/longhaul",
    "zsh": "usr/share/zsh/vendor-completions/_longhaul",
    "fish": "usr/share/fish/vendor_completions.d/longhaul.fish",
}
LAUNCHER = """#!/bin/sh
exec /usr/lib/longhaul/bin/python3 -I -m emulator "$@"
"""
CONTROL = """Package: {name}
Version: {version}
Architecture: amd64
Maintainer: {maintainer}
Installed-Size: {size}
Section: net
Priority: optional
{relations}
Description: {description}
"""
DESCRIPTION = """long-fat-network emulator with the RTT of remote data centres
 Longhaul joins pairs of network ports to lanes, gives each lane the round-trip
 time, rate and loss of a path to a remote data centre, measures programs over
 it, and tells what limited them.
 .
 This package holds the command, the wire engine, and the service that watches
 the lanes and serves the API and the web pages on the loopback address."""
LAB_DESCRIPTION = """virtual-time lab of the Longhaul network emulator
 A kernel (User-mode Linux) in which Longhaul runs hosts, lanes and
 measurements in virtual time: exact, repeatable, and as any user.
 .
 'longhaul demo' shows it. Without this package 'longhaul lab build' builds the
 same kernel from source."""
ORIGIN = """Made by scripts/release of Longhaul; the release has the source of all parts, or tells where it is.
Debian has the GNU licences that are named below in /usr/share/common-licenses/GPL-2 and
/usr/share/common-licenses/LGPL-2.1. The wire engine is linked with glibc (LGPL-2.1-or-later)."""
FULL_LICENSES = {"Apache License": "Apache-2.0", "GNU GENERAL PUBLIC LICENSE": "GPL-2"}
"""The first line of a licence that every Debian has in /usr/share/common-licenses."""


def build(wheel: Path, out: Path, epoch: str, level: int = 6) -> list[Path]:
    """Build both packages from the platform wheel; return their files.

    `epoch`: the time of all files in s; `level`: xz's, 0 to 9.
    """
    with tempfile.TemporaryDirectory(prefix="longhaul-deb-") as made:
        main, lab = Path(made) / "longhaul", Path(made) / "longhaul-lab"
        notes = _environment(main, wheel)
        (lab / PREBUILT).parent.mkdir(parents=True)
        (main / PREBUILT).rename(lab / PREBUILT)
        (lab / PREBUILT / "COPYING").unlink()
        _link(lab, PREBUILT / "COPYING", "usr/share/common-licenses/GPL-2")
        _commands(main, epoch)
        _service(main)
        subprocess.run(["strip", "--strip-unneeded", *_compiled(main)], check=True)
        _documents(main, epoch, notes)
        _documents(lab, epoch, [("The kernel", (lab / PREBUILT / "SOURCE.md").read_text("utf-8"))])
        return [
            _package(out, epoch, level, main, _relations(main), DESCRIPTION),
            _package(out, epoch, level, lab, _lab_relations(lab), LAB_DESCRIPTION),
        ]


def version() -> str:
    """The packages' version: a pre-release sorts before its release."""
    return re.sub(r"\.?(dev|a|b|rc)(?=\d)", r"~\1", __version__) + f"-{REVISION}"


def _environment(root: Path, wheel: Path) -> list[tuple[str, str]]:
    """Lay out the environment. Returns the name and the licences of each Python package in it."""
    site = root / SITE
    site.mkdir(parents=True)
    for python in PYTHONS:
        _install(root.parent / python, python)
        _merge(root.parent / python, site)
        (root / HOME / f"lib/python{python}").symlink_to("python3")
    with zipfile.ZipFile(wheel) as packed:
        for member in packed.infolist():
            Path(packed.extract(member, site)).chmod(member.external_attr >> 16)
    licenses = sorted((site / "emulator/engine/licenses").glob("*-MIT"))
    crates = [(f"The crate {file.name}", _license(file)) for file in licenses]
    (root / HOME / "bin").mkdir()
    _link(root, HOME / "bin/python3", "usr/bin/python3")
    (root / HOME / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    # Behind our own packages: FROM_DEBIAN, and matplotlib, which draws the figures where it is installed.
    (site / "debian.pth").write_text("/usr/lib/python3/dist-packages\n")
    return [*map(_strip_facts, sorted(site.glob("*.dist-info"))), *crates]


def _link(root: Path, link: Path, goal: str) -> None:
    (root / link).symlink_to(os.path.relpath(goal, link.parent))


def _install(target: Path, python: str) -> None:
    """Install the packages of uv.lock, with its hashes, for one Python into `target`."""
    export = ["export", "-q", "--frozen", "--no-dev", "--no-emit-project", "--no-header", "--no-annotate"]
    asked = target.with_suffix(".txt")
    unwanted = [f"--no-emit-package={name}" for name in (*UNUSED, *FROM_DEBIAN)]
    subprocess.run([UV, *export, *unwanted, "-o", asked], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    command = [
        UV,
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--link-mode=copy",
    ]
    platform = ["--python-version", python, "--python-platform", f"x86_64-manylinux_{GLIBC}"]
    subprocess.run([*command, *platform, "--target", target, "-r", asked], check=True)
    shutil.rmtree(target / "bin")
    for entry in [target / ".lock", *target.glob("*.dist-info/*")]:
        if entry.is_file() and entry.suffix != ".txt" and not entry.name.startswith(("LICEN", *KEPT_FACTS)):
            entry.unlink()
    for bill in target.glob("*.dist-info/sboms"):
        shutil.rmtree(bill)


def _merge(source: Path, site: Path) -> None:
    """Add one Python's files to the tree. A file that both have must be the same in both."""
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        goal = site / file.relative_to(source)
        if goal.exists() and goal.read_bytes() != file.read_bytes():
            sys.exit(
                f"{goal.relative_to(site)} differs between Python {' and '.join(PYTHONS)}: one package cannot hold both"
            )
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, goal)


def _strip_facts(folder: Path) -> tuple[str, str]:
    """Keep of a dist-info what is read at run time. Returns the package's name and its licences."""
    facts = HeaderParser().parsestr((folder / "METADATA").read_text("utf-8"))
    named = (file for file in sorted(folder.rglob("*")) if file.name.startswith(("LICEN", "NOTICE", "AUTHORS")))
    texts = [_license(file) for file in named if file.is_file()]
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif entry.name not in KEPT_FACTS:
            entry.unlink()
    name = f"{facts['Name']} {facts['Version']}"
    return name, "\n\n".join(texts) or facts["License-Expression"] or facts["License"]


def _license(file: Path) -> str:
    """A licence's text; of those that Debian has only where."""
    text = file.read_text("utf-8").strip()
    common = FULL_LICENSES.get(text.partition("\n")[0].strip())
    return f"{common}: the text is in /usr/share/common-licenses/{common}" if common else text


def _commands(root: Path, epoch: str) -> None:
    """/usr/bin, man pages and completions."""
    programs, manual = root / "usr/bin", root / "usr/share/man/man1"
    programs.mkdir(parents=True)
    (programs / "longhaul").write_text(LAUNCHER)
    for name in COMMANDS:
        shutil.copyfile(ROOT / "scripts" / name, programs / name)
    for file in programs.iterdir():
        file.chmod(0o755)
    os.environ["SOURCE_DATE_EPOCH"] = epoch
    man_pages.write(manual)
    shutil.copyfile(PARTS / "bridges-up.1", manual / "bridges-up.1")
    for page in manual.iterdir():
        _gzip(page, page.read_bytes())
        page.unlink()
    for name in COMMANDS[1:]:
        (manual / f"{name}.1.gz").symlink_to("bridges-up.1.gz")
    for shell, path in COMPLETIONS.items():
        script = root / path
        script.parent.mkdir(parents=True)
        kind = get_completion_class(shell)
        assert kind
        script.write_text(kind(cli, {}, "longhaul", "_LONGHAUL_COMPLETE").source() + "\n", "utf-8")


def _service(root: Path) -> None:
    """The unit, with the package's command and manual."""
    text = (ROOT / "scripts/longhaul.service").read_text()
    for there, here in (
        ("installed by scripts/install --appliance", "installed by the package longhaul"),
        ("Documentation=file:///opt/longhaul/emulator/docs/appliance.md", "Documentation=man:longhaul(1)"),
        ("ExecStart=/usr/local/bin/longhaul ", "ExecStart=/usr/bin/longhaul "),
    ):
        assert there in text, there
        text = text.replace(there, here)
    unit, hook = (
        root / "usr/lib/systemd/system/longhaul.service",
        root / "usr/share/python3/runtime.d/longhaul.rtupdate",
    )
    for file in (unit, hook):
        file.parent.mkdir(parents=True)
    unit.write_text(text)
    shutil.copyfile(PARTS / "longhaul.rtupdate", hook)
    hook.chmod(0o755)


def _documents(root: Path, epoch: str, parts: list[tuple[str, str]]) -> None:
    """copyright and both changelogs. `parts`: (name, licence) of what others wrote."""
    folder = root / "usr/share/doc" / root.name
    folder.mkdir(parents=True)
    own = (ROOT / "LICENSE").read_text("utf-8").strip()
    sections = [("Longhaul", own), *parts]
    text = "\n\n".join(f"{name}\n{'=' * len(name)}\n\n{licence.strip()}" for name, licence in sections)
    (folder / "copyright").write_text(f"{ORIGIN}\n\n{text}\n", "utf-8")
    when = format_datetime(datetime.fromtimestamp(int(epoch), UTC))
    overrides = root / "usr/share/lintian/overrides" / root.name
    overrides.parent.mkdir(parents=True)
    shutil.copyfile(PARTS / f"{root.name}.lintian-overrides", overrides)
    change = "  * Packaged from the wheel; changelog.gz tells what is new."
    entry = f"longhaul ({version()}) stable; urgency=medium\n\n{change}\n"
    _gzip(folder / "changelog.Debian", f"{entry}\n -- {_maintainer()}  {when}\n".encode())
    _gzip(folder / "changelog", (ROOT / "CHANGELOG.md").read_bytes())


def _maintainer() -> str:
    """Who answers for the packages: DEBFULLNAME and DEBEMAIL, as all of Debian's tools have it; else who committed."""
    name, address = os.environ.get("DEBFULLNAME"), os.environ.get("DEBEMAIL")
    if name and address:
        return f"{name} <{address}>"
    return subprocess.check_output(["git", "log", "-1", "--format=%cn <%ce>"], cwd=ROOT, text=True).strip()


def _gzip(file: Path, content: bytes) -> None:
    """Compress as Debian wants it: best, without name and time."""
    Path(f"{file}.gz").write_bytes(gzip.compress(content, 9, mtime=0))


def _relations(root: Path) -> str:
    first, last = PYTHONS
    python = f"python3 (>= {first}), python3 (<< {_next(first)}) | python3 (>= {last}), python3 (<< {_next(last)})"
    needed = ", ".join([_libraries(root), "iproute2", python, *FROM_DEBIAN.values()])
    suggested = "longhaul-lab, openssh-client, python3-matplotlib"
    return f"Depends: {needed}\nRecommends: iperf3, iputils-ping\nSuggests: {suggested}"


def _lab_relations(root: Path) -> str:
    return f"Depends: {_libraries(root)}, iperf3, iproute2, iputils-ping, longhaul (= {version()})"


def _next(python: str) -> str:
    major, minor = python.split(".")
    return f"{major}.{int(minor) + 1}~"


def _libraries(root: Path) -> str:
    """The packages of the shared libraries that the compiled files need: libc6 since the newest symbol's version."""
    table = subprocess.check_output(["readelf", "-W", "-V", "-d", *_compiled(root)], text=True)
    packages = {LIBRARIES[name] for name in re.findall(r"NEEDED.*\[(.*)\]", table)}
    newest = max(tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", table))
    return ", ".join([f"libc6 (>= {newest[0]}.{newest[1]})", *sorted(packages - {"libc6"})])


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())


def _compiled(root: Path) -> list[Path]:
    return [file for file in sorted(_files(root)) if file.read_bytes()[:4] == b"\x7fELF"]


def _package(out: Path, epoch: str, level: int, root: Path, relations: str, description: str) -> Path:
    """Write the control files of a tree and pack it: the same tree gives the same bytes."""
    texts = {"control": CONTROL.format(
        name=root.name, version=version(), maintainer=_maintainer(), description=description, relations=relations,
        size=sum(-(-path.lstat().st_size // 1024) if path.is_file() else 1 for path in root.rglob("*")),
    )}  # fmt: skip
    texts["md5sums"] = subprocess.check_output(
        ["md5sum", *sorted(str(path.relative_to(root)) for path in _files(root))], cwd=root, text=True
    )
    texts |= {name: file.read_text() for name in ("postinst", "prerm", "postrm")
              if (file := PARTS / f"{root.name}.{name}").exists()}  # fmt: skip
    folder = root / "DEBIAN"
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644 if name in ("control", "md5sums") else 0o755)
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (int(epoch),) * 2, follow_symlinks=False)
    made = out / f"{root.name}_{version()}_amd64.deb"
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    pack = ["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--threads-max=1", "--build", root, made]
    subprocess.run(pack, env=env, check=True, stdout=subprocess.DEVNULL)
    return made
