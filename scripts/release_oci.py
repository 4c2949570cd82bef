"""The OCI images of a release, made of its Debian packages: `longhaul` for the command line and the lab, and
`longhaul-appliance` for lanes between network ports. They differ in what starts, and by which user.

mmdebstrap installs the packages and what they need from Debian into an empty file system, and buildah makes of it the
one layer that both images share. The time in everything is the release's, so the same packages give the same bytes.
Mounts that the installation needs are in a mount namespace of its own, which ends with it, whatever happens.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import needed_programs

from emulator import __version__

SUITE = "trixie"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NEEDED = {
    "mmdebstrap": "mmdebstrap",
    "buildah": "buildah",
    "unshare": "util-linux",
    str(KEYRING): "debian-archive-keyring",
}
"""What builds the images, and the package of each."""
ARCHIVE = "http://deb.debian.org/debian"
SECURITY = "http://deb.debian.org/debian-security"
PINNED = "[check-valid-until=no]"
"""An archive of the past tells in its index that it is out of date."""
PACKAGES = ("longhaul", "longhaul-lab", "openssh-client")
"""They come with all that they need: the lab brings iperf3 and ping."""
WORK = "work"
"""The folder in which the command runs: any user may write, as in /tmp."""
STATUS = "./var/lib/dpkg/status"
OPEN, CLOSED, READABLE = 0o1777, 0o755, 0o644

Packages = list[tuple[str, str]]
"""(package, version) of each."""


ENV = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
    "HOME": "/tmp", "TMPDIR": "/tmp", "container": "oci",
}  # fmt: skip
"""Docker's /dev/shm allows no programs, which the lab needs: its memory lies in /tmp. `container` tells the doctor
where it is, by the convention of systemd."""
UNREAD = ("/usr/share/locale/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/lintian/*", "/usr/share/doc/*")
READ = ("/usr/share/doc/*/copyright",)
"""What dpkg leaves out here and in images that are made from these; and of it what the licences ask for."""


@dataclass(frozen=True)
class Image:
    """What starts in one image. `uid` is who runs the command; `needs` tells what a container of it needs besides."""

    name: str
    title: str
    uid: int
    command: tuple[str, ...]
    needs: str


IMAGES = (
    Image(
        "longhaul",
        "Longhaul: the command line and the lab in virtual time",
        65534,
        ("--help",),
        "no capability; 1 GiB of room in /tmp, which has to allow programs",
    ),
    Image(
        "longhaul-appliance",
        "Longhaul: lanes between network ports, with the API and the web pages",
        0,
        ("serve",),
        "CAP_NET_ADMIN; network ports, of its own or of the host; a volume at /var/lib/longhaul",
    ),
)


def main() -> None:
    """By hand: build the images of packages that are there already."""
    parser = argparse.ArgumentParser(prog="scripts/release_oci.py", description=__doc__)
    parser.add_argument("packages", type=Path, help="the folder of the Debian packages, such as dist")
    parser.add_argument("--out", type=Path, help="the folder of the images; the packages' without it")
    parser.add_argument("--mirror", help="the only archive to install from, such as one day's of snapshot.debian.org")
    asked = parser.parse_args()
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _said("git", "log", "-1", "--format=%ct")
    packages = sorted(asked.packages.glob("*.deb"))
    images, _ = build(packages, asked.out or asked.packages, epoch, _said("git", "rev-parse", "HEAD"), asked.mirror)
    for made in images:
        print(f"{made}  {made.stat().st_size} bytes")


def build(
    packages: list[Path], out: Path, epoch: str, revision: str, mirror: str | None = None
) -> tuple[list[Path], Packages]:
    """Build the images of the release's Debian packages; returns their files and what is installed in them.

    `epoch`: the time of all files in s; `revision`: the commit, for the images' label. Ends the program where a tool is
    missing.
    """
    check_tools()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="longhaul-oci-") as made:
        folder = Path(made)
        # apt reads the packages as a user of its own.
        folder.chmod(CLOSED)
        repository(folder / "packages", packages)
        root = folder / "root.tar"
        _install(folder, root, epoch, sources(folder / "packages", mirror))
        return _committed(folder, root, out, epoch, revision), installed(root)


def check_tools(has: Callable[[str], object] = shutil.which) -> None:
    """End the program where something is missing, with the command that installs it."""
    needed_programs.check("the images need", NEEDED, has)


def file_name(image: Image) -> str:
    """Of an image's archive; such names sort beside those of the Debian packages."""
    return f"{image.name}_{__version__}_amd64.oci.tar"


def repository(folder: Path, packages: list[Path]) -> None:
    """Make a folder from which apt installs these packages."""
    folder.mkdir()
    index = []
    for package in packages:
        shutil.copy(package, folder)
        control = subprocess.check_output(["dpkg-deb", "-f", package], text=True)
        content = package.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        index.append(f"{control.strip()}\nFilename: ./{package.name}\nSize: {len(content)}\nSHA256: {digest}\n")
    (folder / "Packages").write_text("\n".join(index), "utf-8")


def sources(packages: Path, mirror: str | None) -> list[str]:
    """apt's sources: Debian's, or one archive of a day; and the folder of our own packages, which has no signature."""
    debian = [
        f"deb {ARCHIVE} {SUITE} main",
        f"deb {ARCHIVE} {SUITE}-updates main",
        f"deb {SECURITY} {SUITE}-security main",
    ]
    return [*([f"deb {PINNED} {mirror} {SUITE} main"] if mirror else debian), f"deb [trusted=yes] copy:{packages} ./"]


def _install(folder: Path, root: Path, epoch: str, lines: list[str]) -> None:
    """Install into an empty file system, as a tar archive. Our own source is no longer there for apt in the image."""
    command = [
        *("mmdebstrap", "--quiet", "--variant=minbase", "--format=tar", f"--include={','.join(PACKAGES)}"),
        *(f"--dpkgopt=path-exclude={path}" for path in UNREAD),
        *(f"--dpkgopt=path-include={path}" for path in READ),
        "--customize-hook=sed -i '/ copy:/d' \"$1\"/etc/apt/sources.list",
        f'--customize-hook=install -d -m {OPEN:o} "$1"/{WORK}',
        *(SUITE, str(root), *lines),
    ]
    apart = ["unshare", "--mount", "--propagation", "private"] if os.geteuid() == 0 else []
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "TMPDIR": str(folder)}
    subprocess.run([*apart, *command], env=env, check=True)


def shared_configuration(revision: str) -> list[str]:
    """The arguments of `buildah config` that hold for both images."""
    labels = {"version": __version__, "revision": revision, "licenses": "MIT AND GPL-2.0-only"}
    return [
        *("--created-by", "scripts/release", "--os", "linux", "--arch", "amd64", "--workingdir", f"/{WORK}"),
        *("--entrypoint", json.dumps(["/usr/bin/longhaul"])),
        *(part for name, value in ENV.items() for part in ("--env", f"{name}={value}")),
        *_labels(labels),
    ]


def configuration(image: Image) -> list[str]:
    """The arguments of `buildah config` that hold for one image."""
    labels = {"title": image.title, "description": f"A container needs {image.needs}."}
    return [*("--user", f"{image.uid}:{image.uid}", "--cmd", json.dumps(list(image.command))), *_labels(labels)]


def _labels(values: dict[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in ("--label", f"org.opencontainers.image.{name}={value}")]


def _committed(folder: Path, root: Path, out: Path, epoch: str, revision: str) -> list[Path]:
    """Make the images with one layer of the file system, in a store of their own."""
    store: list[str | Path] = ["buildah", "--root", folder / "store", "--runroot", folder / "run"]
    env = {**os.environ, "TMPDIR": str(folder)}

    def buildah(*arguments: str | Path) -> str:
        command = [*store, "--storage-driver", "vfs", *arguments]
        return str(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout).strip()

    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, root, "/")
    buildah("config", *shared_configuration(revision), container)
    made = []
    for image in IMAGES:
        buildah("config", *configuration(image), container)
        made.append(out / file_name(image))
        layout = folder / image.name
        commit = ["commit", "--quiet", "--format", "oci", "--disable-compression=false", "--timestamp", epoch]
        buildah(*commit, container, f"oci:{layout}:{image.name}:{__version__}")
        pack(layout, made[-1], int(epoch))
    return made


def pack(layout: Path, archive: Path, epoch: int) -> None:
    """Pack an image's folder; buildah's own archives have the time of day in them. `epoch`: in s."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid, member.gid, member.uname, member.gname, member.mtime = 0, 0, "", "", epoch
        member.mode = CLOSED if member.isdir() else READABLE
        return member

    with tarfile.open(archive, "w") as packed:
        for path in sorted(layout.rglob("*")):
            packed.add(path, str(path.relative_to(layout)), recursive=False, filter=plain)


def installed(root: Path) -> Packages:
    """The Debian packages in a file system's archive, as (package, version)."""
    with tarfile.open(root) as packed:
        status = packed.extractfile(STATUS)
        assert status
        return packages_of(status)


def packages_of(status: IO[bytes]) -> Packages:
    """dpkg's list of what is installed, as (package, version)."""
    found = []
    for entry in status.read().decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Status") == "install ok installed":
            found.append((fields["Package"], fields["Version"]))
    return sorted(found)


def _said(*argv: str) -> str:
    root = Path(__file__).resolve().parents[1]
    return subprocess.run(argv, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
