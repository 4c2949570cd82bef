"""Debian packages for the lab, downloaded and unpacked without root: apt uses private folders, no script runs.

`STATUS` in a root file system is dpkg's own database of what is there; apt reads it before it adds packages on top.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from emulator.errors import LabError
from emulator.lab.build_cache import Progress, command

SUITE = "trixie"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
STATUS = "var/lib/dpkg/status"
INSTALLED, UNPACKED = "install ok installed", "install ok unpacked"


def download(folder: Path, names: Sequence[str], status: Path | None = None) -> list[Path]:
    """Download packages and what they depend on, less what `status` says is there. Returns the archives in `folder`.

    The packages that are named are downloaded even if they are there: their scripts have not run.
    Raises LabError; it names every package that the suite does not have.
    """
    apt = _private_apt(folder, status)
    command([*apt, "update"])
    if unknown := _unknown(apt, names):
        raise LabError(
            f"Debian {SUITE} has no package {', '.join(unknown)}: apt-cache search WORD, or "
            f"https://packages.debian.org/{SUITE}/, lists the names"
        )
    command([*apt, "install", "--download-only", "--reinstall", "-y", *names])
    archives = sorted((folder / "cache/archives").glob("*.deb"))
    # base-files first: it brings the links /bin, /lib, ... that the others unpack through.
    archives.sort(key=lambda path: not path.name.startswith("base-files_"))
    return archives


def fetch(folder: Path, package: str, suites: Sequence[str]) -> Path:
    """Download one package into `folder`: from where this machine's apt has it, else from the first of Debian's suites.

    Raises LabError when none has it.
    """
    if command(["apt-cache", "show", "--no-all-versions", package], accept=(0, 100)).startswith("Package:"):
        command(["apt-get", "download", package], cwd=folder)
        return next(folder.glob(f"{package}_*.deb"))
    for suite in suites:
        apt = _private_apt(folder / f"apt-{suite}", None, suite)
        command([*apt, "update"])
        if not _unknown(apt, [package]):
            command([*apt, "download", package], cwd=folder)
            return next(folder.glob(f"{package}_*.deb"))
    raise LabError(f"neither this machine's apt nor Debian's {', '.join(suites)} have {package}")


def unpack(archives: Sequence[Path], root: Path, progress: Progress) -> None:
    """Unpack archives into a root file system. Raises LabError."""
    for count, archive in enumerate(archives):
        progress("unpack Debian packages", count, len(archives))
        command(["dpkg-deb", "-x", archive, root])
    progress("unpack Debian packages", len(archives), len(archives))


def stanza(archive: Path, state: str) -> str:
    """A package's entry in STATUS: its control file, and its state."""
    return f"{command(['dpkg-deb', '-f', archive]).strip()}\nStatus: {state}\n"


def register(archive: Path, root: Path) -> None:
    """Give dpkg below a root what it keeps of an unpacked package: its scripts, and the list of its files."""
    info = root / "var/lib/dpkg/info"
    entry = command(["dpkg-deb", "-f", archive, "Package", "Architecture", "Multi-Arch"])
    name = field(entry, "Package")
    if field(entry, "Multi-Arch") == "same":
        name += f":{field(entry, 'Architecture')}"
    info.mkdir(parents=True, exist_ok=True)
    scripts = info / f"{name}.partial"
    command(["dpkg-deb", "-e", archive, scripts])
    for script in scripts.iterdir():
        if script.name not in ("control", "md5sums"):
            script.rename(info / f"{name}.{script.name}")
    shutil.rmtree(scripts)
    listed = command(["dpkg-deb", "-c", archive]).splitlines()
    paths = [line.split(maxsplit=5)[5].split(" -> ")[0] for line in listed]
    owned = "".join(f"{path.removeprefix('.').rstrip('/') or '/.'}\n" for path in paths)
    (info / f"{name}.list").write_text(owned, "utf-8")


def stanzas(status: str) -> dict[str, str]:
    """The entries of a STATUS file by package."""
    parts = [part.strip() for part in status.split("\n\n")]
    return {field(part, "Package"): f"{part}\n" for part in parts if part}


def field(entry: str, name: str) -> str:
    """One field of an entry; "" without it."""
    start = f"{name}: "
    return next((line.removeprefix(start) for line in entry.splitlines() if line.startswith(start)), "")


def write_status(root: Path, entries: Iterable[str]) -> None:
    """Write STATUS below a root, and the folders beside it that dpkg wants."""
    file = root / STATUS
    for name in ("info", "updates", "triggers", "alternatives"):
        (file.parent / name).mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(entries), "utf-8")


def _unknown(apt: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of the names that are no package of the suite."""
    options = [word for word in apt if word.startswith("-o")]
    known = set(command(["apt-cache", *options, "pkgnames"]).split())
    # A virtual package has no version of its own, and apt cannot choose who provides it.
    return [name for name in names if name not in known]


def _private_apt(folder: Path, status: Path | None, suite: str = SUITE) -> list[str]:
    """apt-get with private folders and the mirror that this machine uses. Raises LabError when apt knows no mirror."""
    for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial", "dpkg"):
        (folder / name).mkdir(parents=True)
    if status is None:
        status = folder / "dpkg/status"
        status.touch()
    mirrors = command(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).split()
    mirror = next((m for m in mirrors if m.rstrip("/").endswith("/debian")), None)
    if mirror is None:
        raise LabError("apt knows no Debian mirror on this machine: run apt-get update, or check its sources")
    (folder / "etc/sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {suite} main\n", "utf-8")
    options: Mapping[str, object] = {
        "Dir::Etc": folder / "etc",
        "Dir::Etc::parts": folder / "etc/apt.conf.d",
        "Dir::State": folder / "state",
        "Dir::State::status": status,
        "Dir::Cache": folder / "cache",
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    return ["apt-get", "-q", *(f"-o{key}={value}" for key, value in options.items())]
