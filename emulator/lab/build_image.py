"""Build the lab's root file system: unpacked Debian packages and the Python packages of `requirements.txt`.

This needs no root: apt uses private folders, no maintainer script runs, and FILES holds what such scripts would write.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from emulator.errors import LabError
from emulator.lab import build_packages, compile_pyc
from emulator.lab.build_cache import Progress, building, command, entry, need

PACKAGES = (
    "bash", "bridge-utils", "coreutils", "dash", "ethtool", "findutils", "grep", "iperf3", "iproute2", "iputils-ping",
    "irtt", "libc-bin", "login", "mininet", "mount", "openssh-client", "openssh-server", "procps", "python3", "sed",
    "sudo", "tar", "util-linux",
)  # fmt: skip
RECIPE = "6"
"""Increase it when the steps below change, or those of `compile_pyc.compile_image`."""

PROJECT = Path(__file__).parents[2]
OWN = ("emulator", "web", "topologies") if (PROJECT / "pyproject.toml").exists() else ("emulator",)
"""The folders of PROJECT that are Longhaul's: a wheel has all inside `emulator`, and other packages lie beside it."""
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
"""The Python packages of the image with their versions: what uv.lock says, less the tools that no lab runs."""
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost lab\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "lab/init": "#!/bin/sh\n"
    # Before Linux 6.9 all of hostfs' options are the path.
    'mount -t hostfs none /lab/run -o "hostfs=$longhaul_run" 2>/dev/null ||'
    ' mount -t hostfs none /lab/run -o "$longhaul_run"\n'
    "exec python3 -I -S /lab/run/init.py\n",
    "usr/local/bin/longhaul": '#!/bin/sh\nexec python3 -P -m emulator "$@"\n',
    "usr/local/bin/which": '#!/bin/sh\ncommand -v "$@"\n',
}
ROOM_BYTES = 512 << 20
"""What the image takes of the cache while it is built; afterwards it has 210 MiB."""
FOLDERS = ("usr/local/bin", "lab/run", "lab/rw", "opt/longhaul/src", "proc", "sys", "dev", "run", "tmp", "root", "etc")


def place() -> Path:
    """The folder that holds the image `root`, or will hold it. Its name depends on every input of the build."""
    return entry("image", [build_packages.SUITE, " ".join(PACKAGES), repr(FILES), RECIPE, REQUIREMENTS.read_bytes()])


def build(progress: Progress) -> Path:
    """Build the image unless it is there. Returns its root folder. Raises LabError."""
    goal = place()
    with building(goal, ROOM_BYTES) as partial:
        if partial:
            need({"apt-get": "apt", "dpkg-deb": "dpkg"})
            root = partial / "root"
            for name in FOLDERS:
                (root / name).mkdir(parents=True, exist_ok=True)
            _packages(partial, root, progress)
            for path, text in FILES.items():
                (root / path).write_text(text, "utf-8")
            for path in (path for path, text in FILES.items() if text.startswith("#!")):
                (root / path).chmod(0o755)
            _python_packages(root, progress)
            progress("compile Python packages", 0, 1)
            compile_pyc.compile_image(root)
            progress("compile Python packages", 1, 1)
    return goal / "root"


def _packages(partial: Path, root: Path, progress: Progress) -> None:
    progress("download Debian packages", 0, 1)
    archives = build_packages.download(partial / "apt", PACKAGES)
    progress("download Debian packages", 1, 1)
    build_packages.unpack(archives, root, progress)
    build_packages.write_status(root, (build_packages.stanza(one, build_packages.INSTALLED) for one in archives))
    shutil.rmtree(partial / "apt")
    for path in UNUSED:
        shutil.rmtree(root / path, ignore_errors=True)


def _python_packages(root: Path, progress: Progress) -> None:
    progress("install Python packages", 0, 1)
    target = root / "opt/longhaul/site-packages"
    wanted: list[str | Path] = ["--python-version", compile_pyc.VERSION, "--only-binary", ":all:", "-r", REQUIREMENTS]
    command([*_installer(), "-q", "--target", target, *wanted], env={"UV_LINK_MODE": "copy"})
    shutil.rmtree(target / "bin", ignore_errors=True)
    progress("install Python packages", 1, 1)


def _installer() -> list[str]:
    """uv if it is installed, because it is faster, else pip. Raises LabError without either."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    if Path(uv).exists():
        return [uv, "pip", "install", "--python", sys.executable]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    raise LabError(f"{sys.executable} has neither uv nor pip, which install the lab's Python packages: install one")
