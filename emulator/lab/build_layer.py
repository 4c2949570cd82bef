"""Build a layer: Debian packages on top of the lab's image, unpacked here and configured by dpkg in a lab.

The layer is a folder of the cache, one for each set of packages. `root` lies over the image; RECORD holds the version
of every package in it, those that dpkg could not configure, and who owns the files that are not root's.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from emulator.errors import LabError
from emulator.lab import build_packages
from emulator.lab.build_cache import Progress, building, entry, need
from emulator.lab.build_cache import folder as cache_folder
from emulator.lab.build_image import UNUSED

RECIPE = "2"
"""Increase it when the steps below change."""

RECORD = "packages.json"
ROOM_BYTES = 64 << 20
"""The least that a build needs of the cache; large packages need more."""
OF_DPKG = ("bsdutils", "diffutils", "hostname", "ucf")
"""What dpkg and the packages' scripts take for granted on every Debian, and the image lacks: of ucf its questions."""
LINKS = ("bin", "lib", "lib64", "sbin")
"""Links of the image into usr, through which packages unpack."""
CHANGES = "changes.tar"

FILES = {
    # A cluster of one's own is faster, and on a file system that the server may own.
    "etc/postgresql-common/createcluster.d/longhaul.conf": "create_main_cluster = false\n",
    "usr/sbin/policy-rc.d": "#!/bin/sh\nexit 101\n",  # no service starts
}
CONFIGURE = f"""
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true UCF_FORCE_CONFFNEW=1
update-passwd
pam-auth-update --package --force
ldconfig
update-alternatives --install /usr/bin/awk awk /usr/bin/mawk 5
dpkg --configure -a --force-confold --abort-after=100000
cd /lab/changes
find . -mindepth 1 -path ./lab -prune -o -path ./opt/longhaul -prune -o ! -type c ! -type s -print0 |
  tar --null --no-recursion -T - -cf "$OLDPWD/{CHANGES}"
"""
"""Run as root of a lab, in the folder that takes CHANGES: what dpkg changed of the root file system."""

Configure = Callable[[Path, str, Path], str]
"""Boots a lab with a layer's root, runs a script in a folder of the host, and returns its output."""


class Layer(Struct, frozen=True):
    """A built layer. `packages` are the versions by name; `owners` are (path, uid, gid)."""

    root: Path
    packages: dict[str, str]
    unconfigured: tuple[str, ...] = ()
    owners: tuple[tuple[str, int, int], ...] = ()


def place(image: Path, packages: Sequence[str]) -> Path:
    """The folder of this set of packages on this image, whether it is built or not."""
    return entry("layer", [image.name, " ".join(packages), " ".join(OF_DPKG), repr(FILES), CONFIGURE, RECIPE])


def built() -> list[Path]:
    """The layers in the cache."""
    return sorted(
        path.parent for path in cache_folder().glob(f"layer-*/{RECORD}") if ".partial" not in path.parent.name
    )


def load(folder: Path) -> Layer:
    """A built layer. Raises LabError when its record is spoilt."""
    try:
        value = json.loads((folder / RECORD).read_text("utf-8"))
        owners = tuple((str(path), int(uid), int(gid)) for path, uid, gid in value["owners"])
        return Layer(folder / "root", dict(value["packages"]), tuple(value["unconfigured"]), owners)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise LabError(f"{folder} is spoilt ({error}): remove it; the next build makes it anew") from None


def build(image: Path, packages: Sequence[str], configure: Configure, progress: Progress) -> Layer:
    """Build the layer unless it is there. `image` is the image's folder in the cache. Raises LabError."""
    goal = place(image, packages)
    with building(goal, ROOM_BYTES) as partial:
        if partial:
            need({"apt-get": "apt", "dpkg-deb": "dpkg"})
            root = partial / "root"
            versions = _unpacked(partial, image / "root", packages, progress)
            progress("configure Debian packages", 0, 1)
            (work := partial / "work").mkdir()
            log = configure(root, CONFIGURE, work)
            owners = _merge(work / CHANGES, root, log)
            shutil.rmtree(work)
            (root / "usr/sbin/policy-rc.d").unlink()
            for path in UNUSED:
                shutil.rmtree(root / path, ignore_errors=True)
            value = {"packages": versions, "unconfigured": _unconfigured(root), "owners": owners}
            (partial / RECORD).write_text(json.dumps(value, indent=1) + "\n", "utf-8")
            (partial / "configure.log").write_text(log, "utf-8")
            progress("configure Debian packages", 1, 1)
    return load(goal)


def _unpacked(partial: Path, image: Path, packages: Sequence[str], progress: Progress) -> dict[str, str]:
    """Download and unpack what the image lacks of these packages. Returns their versions."""
    progress("download Debian packages", 0, 1)
    archives = build_packages.download(partial / "apt", [*packages, *OF_DPKG], image / build_packages.STATUS)
    progress("download Debian packages", 1, 1)
    root = partial / "root"
    root.mkdir()
    for name in LINKS:
        if (image / name).is_symlink():
            (root / name).symlink_to((image / name).readlink())
            (root / (image / name).readlink()).mkdir(parents=True, exist_ok=True)
    build_packages.unpack(archives, root, progress)
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    entries = build_packages.stanzas((image / build_packages.STATUS).read_text("utf-8"))
    before = dict(entries)
    for archive in archives:
        build_packages.register(archive, root)
        entries |= build_packages.stanzas(build_packages.stanza(archive, build_packages.UNPACKED))
    build_packages.write_status(root, entries.values())
    shutil.rmtree(partial / "apt")
    asked = [entry for name, entry in entries.items() if name in packages or before.get(name) != entry]
    return {build_packages.field(one, "Package"): build_packages.field(one, "Version") for one in asked}


def _unconfigured(root: Path) -> list[str]:
    """The packages that dpkg could not configure."""
    entries = build_packages.stanzas((root / build_packages.STATUS).read_text("utf-8"))
    state = {name: build_packages.field(entry, "Status") for name, entry in entries.items()}
    return sorted(name for name, status in state.items() if status != build_packages.INSTALLED)


def _merge(archive: Path, root: Path, log: str) -> list[tuple[str, int, int]]:
    """Put what dpkg changed into the layer. Returns the paths whose owner is not root. Raises LabError."""
    owners, mounted = [], {str(path) for path in archive.parents}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                if f"/{member.name.removeprefix('./')}" in mounted:
                    continue  # the way to the folder that the script ran in
                _replace(tar, member, root)
                if member.uid or member.gid:
                    owners.append((member.name.removeprefix("./"), member.uid, member.gid))
    except (OSError, tarfile.TarError) as error:
        end = "\n".join(log.splitlines()[-12:])
        raise LabError(f"dpkg could not configure the packages in a lab ({error}):\n{end}") from None
    return owners


def _replace(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path) -> None:
    """Write one file, folder or link of the archive, owned by this user."""
    target = root / member.name
    if member.isdir():
        if not target.is_dir():
            target.mkdir(parents=True)
        target.chmod(member.mode | 0o700)  # this user must be able to remove it again
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        target.hardlink_to(root / member.linkname)
    elif member.isreg() and (source := tar.extractfile(member)):
        with target.open("wb") as file:
            shutil.copyfileobj(source, file)
        target.chmod(member.mode & 0o7777)
