"""What scripts/release does: collect what goes into wheels, build them, the Debian packages, SBOM and SHA256SUMS."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import release_deb
import release_oci
import sbom

from emulator import __version__
from emulator.lab import build_kernel

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
COPYING = Path("/usr/share/common-licenses/GPL-2")
REGISTRY = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "registry"
LINKED = "linux-vdso.so.1", "libc.so.6", "ld-linux-x86-64.so.2"
"""All that the kernel's executable may need of a machine: every one with glibc has it."""

OFFER = """# The source of the kernel `{folder}/linux`

This program is Linux {version} for User-mode Linux (ARCH=um), changed by Longhaul. It is free software
under the GNU General Public License, version 2; `COPYING` beside this file is its text. It is a program of its own:
Longhaul, under the MIT licence, starts it and is no part of it. Its complete source is:

1. The unmodified source: Debian's package {package}, version {version}. The release has
   the archive as `{archive}`
   (SHA-256 {digest}).
   Debian has it, too: `apt-get download {package}={version}`, or
   https://snapshot.debian.org/binary/{package}/
2. The changes: `../patches/*.patch`, applied in the order of their names:
{patches}
3. The configuration: `../kernel.config`, on top of `make ARCH=um tinyconfig`.
4. The scripts that control the build: `../build_kernel.py`. It sets {settings},
   and strips the result.

`longhaul lab build` does all this where no kernel is built yet. With the compiler that built this one, {compiler},
the result has the same bytes (SHA-256 {linux}).

# The source of the wire engine

`emulator/engine/longhaul-wire` is Longhaul's own, under the MIT licence. It is linked with glibc {libc}
(LGPL-2.1-or-later, Debian's package libc6-dev) and with crates, whose licences are in `emulator/engine/licenses`. Its
source lies beside it: `cargo build --release` in a copy of `emulator/engine` links it anew.
"""


def main() -> None:
    """Build all in --out."""
    asked = _arguments()
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or _said("git", "log", "-1", "--format=%ct")
    if _said("git", "status", "--porcelain", "--untracked-files=no"):
        print("note: there are uncommitted changes, so this is no commit's release", file=sys.stderr)
    if asked.oci:
        release_oci.check_tools()
    asked.out.mkdir(parents=True, exist_ok=True)
    linux = build_kernel.build(lambda *_: None)
    archive = _kernel_source(asked.out)
    with tempfile.TemporaryDirectory(prefix="longhaul-release-") as stage:
        engine = asked.engine or _engine(Path(stage) / "target")
        full, nothing = Path(stage) / "full", Path(stage) / "nothing"
        nothing.mkdir()
        _fill(full, linux, engine, archive)
        wheels = [_wheel(asked.out, epoch, nothing, "py3-none-any"), _wheel(asked.out, epoch, full, _tag(linux))]
    packages = release_deb.build(wheels[1], asked.out, epoch, asked.xz)
    images, installed = _images(packages, asked, epoch) if asked.oci else ([], [])
    bill = asked.out / f"longhaul-{__version__}.cdx.json"
    bill.write_text(sbom.document(ROOT, int(epoch), _debian(archive), _held(images, installed)), "utf-8")
    made = sorted([*wheels, *packages, *images, bill, archive])
    (asked.out / "SHA256SUMS").write_text("".join(f"{_digest(file)}  {file.name}\n" for file in made), "utf-8")
    for file in [*made, asked.out / "SHA256SUMS"]:
        print(f"{file}  {file.stat().st_size} bytes")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder of the results")
    parser.add_argument("--engine", type=Path, help="the wire engine's binary to take")
    parser.add_argument("--xz", type=int, default=6, metavar="0-9", help="xz's level for the Debian packages")
    parser.add_argument(
        "--oci", action="store_true", help="the OCI images as well, with packages from Debian's archive"
    )
    parser.add_argument("--mirror", help="for the images: the only archive, such as one day's of snapshot.debian.org")
    return parser.parse_args()


def _kernel_source(out: Path) -> Path:
    """Put the unmodified source of the kernel that is built into the release."""
    built, installed = build_kernel.source_version(), build_kernel.installed_version()
    if built != installed or not build_kernel.SOURCE.exists():
        sys.exit(
            f"the kernel was built from {build_kernel.PACKAGE} {built}, and {installed or 'none'} is installed: "
            f"apt-get install {build_kernel.PACKAGE}={built}, or remove {build_kernel.place()}"
        )
    archive = out / f"{build_kernel.PACKAGE}_{built}.tar.xz"
    archive.unlink(missing_ok=True)
    try:
        os.link(build_kernel.SOURCE, archive)
    except OSError:
        shutil.copy(build_kernel.SOURCE, archive)
    return archive


def _engine(target: Path) -> Path:
    """Build the engine: one static binary, without the names of this machine's folders."""
    remap = f"--remap-path-prefix={REGISTRY}=registry --remap-path-prefix={ROOT}=longhaul"
    env = {**os.environ, "RUSTFLAGS": f"-C target-feature=+crt-static {remap}", "CARGO_TARGET_DIR": str(target)}
    subprocess.run([ROOT / "scripts/engine-cargo", "build", "-q", "--release", "--locked"], env=env, check=True)
    return target / "release/longhaul-wire"


def _fill(folder: Path, linux: Path, engine: Path, archive: Path) -> None:
    """Lay out what the platform wheel has besides the other."""
    package = folder / "emulator"
    prebuilt = package / "lab/prebuilt" / linux.parent.name
    shutil.copytree(linux.parent, prebuilt)
    shutil.copy(COPYING, prebuilt.parent / "COPYING")
    (prebuilt.parent / "SOURCE.md").write_text(_offer(linux, archive), "utf-8")
    licenses = package / "engine/licenses"
    licenses.mkdir(parents=True)
    shutil.copy(engine, package / "engine/longhaul-wire")
    subprocess.run([ROOT / "scripts/engine-cargo", "fetch", "-q", "--locked"], check=True)
    for name, version, _ in sbom.crates(ROOT):
        for file in sorted(REGISTRY.glob(f"src/*/{name}-{version}/LICENSE*")):
            shutil.copy(file, licenses / f"{name}-{file.name}")


def _offer(linux: Path, archive: Path) -> str:
    return OFFER.format(
        folder=linux.parent.name,
        version=build_kernel.source_version(),
        package=build_kernel.PACKAGE,
        archive=archive.name,
        digest=_digest(archive),
        patches="\n".join(f"   - {patch.name}" for patch in build_kernel.series()),
        settings=", ".join(f"{name}={value!r}" for name, value in build_kernel.BUILD.items()),
        compiler=_said("gcc", "--version").splitlines()[0],
        linux=_digest(linux),
        libc=_libc(),
    )


def _tag(linux: Path) -> str:
    """The wheel's tag: the oldest glibc that has all symbols of the kernel's executable; the engine is static."""
    table = _said("readelf", "-W", "-V", "-d", str(linux))
    if other := set(re.findall(r"NEEDED.*\[(.*)\]", table)) - set(LINKED):
        sys.exit(f"{linux} needs {', '.join(sorted(other))}, which not every machine has")
    newest = max(tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", table))
    return f"py3-none-manylinux_{newest[0]}_{newest[1]}_x86_64"


def _wheel(out: Path, epoch: str, files: Path, tag: str) -> Path:
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "LONGHAUL_WHEEL_FILES": str(files), "LONGHAUL_WHEEL_TAG": tag}
    subprocess.run([UV, "build", "-q", "--wheel", "--no-create-gitignore", "-o", out, ROOT], env=env, check=True)
    return out / f"longhaul-{__version__}-{tag}.whl"


def _debian(archive: Path) -> list[tuple[str, str, str, str]]:
    """What of Debian is in the binaries: (package, version, licence, SHA-256 or "")."""
    kernel = (build_kernel.PACKAGE, build_kernel.source_version(), "GPL-2.0-only", _digest(archive))
    return [kernel, ("libc6-dev", _libc(), "LGPL-2.1-or-later", "")]


def _images(packages: list[Path], asked: argparse.Namespace, epoch: str) -> tuple[list[Path], release_oci.Packages]:
    return release_oci.build(packages, asked.out, epoch, _said("git", "rev-parse", "HEAD"), asked.mirror)


def _held(images: list[Path], installed: release_oci.Packages) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """(name, SHA-256, packages of Debian) of each image."""
    return [(file.name, _digest(file), installed) for file in images]


def _libc() -> str:
    return _said("dpkg-query", "-W", "-f", "${Version}", "libc6-dev")


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _said(*argv: str) -> str:
    return subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
