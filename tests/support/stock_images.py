"""Disks of stock Debians with their own kernel, an appliance from the .deb, and the QEMU that boots them.

QEMU is Debian 13's, in a root file system of its own: Debian 12's has no igb. The disks lie in there, too. Needs root,
mmdebstrap and mke2fs. `folder` must allow programs and device files, as tmpfs does unless it is mounted otherwise.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from support.folders import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import debian_disk

QEMU_PACKAGES = "qemu-system-x86,qemu-utils"
PACKAGES = "linux-image-amd64,systemd-sysv,dbus,udev,kmod,iproute2,iputils-ping,ethtool,iperf3,openssh-server"
VM = "vm"
"""The folder of the disks, in QEMU's root file system."""
PARTS = Path(__file__).with_name("stock_guest")
"""What a machine needs so that the bench can speak to it: an agent, the hosts behind its ports, one network."""
UNITS = ("stock-agent.service", "stock-hosts.service")
DISK = "12G"


@dataclass(frozen=True)
class Image:
    """A disk with what boots it; the paths are those in QEMU's root file system."""

    suite: str
    disk: str
    kernels: dict[str, str]
    """Of each release its kernel, the suite's own first; the initrd lies beside it."""
    release: str
    """Debian's, such as 12.11."""


def qemu_root(folder: Path) -> Path:
    """The root file system with QEMU, made unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    root = folder / "qemu"
    if not (root / "usr/bin/qemu-img").exists():
        debian_disk.bootstrap("trixie", root, QEMU_PACKAGES, "--variant=apt")
    (root / VM).mkdir(exist_ok=True)
    (root / "dev/net").mkdir(parents=True, exist_ok=True)
    if not (tap := root / "dev/net/tun").exists():
        os.mknod(tap, stat.S_IFCHR | 0o600, os.makedev(10, 200))
    return root


def made(folder: Path, suite: str, package: Path, *, keep: bool) -> Image:
    """The suite's disk: made anew, unless `keep` and an earlier call left one."""
    note = qemu_root(folder) / VM / f"{suite}.json"
    if keep and note.exists():
        return Image(**json.loads(note.read_text()))
    image = make(folder, suite, package)
    note.write_text(json.dumps(asdict(image)))
    return image


def delete(folder: Path, image: Image) -> None:
    """Delete the suite's disks and kernels."""
    for file in (folder / "qemu" / VM).glob(f"{image.suite}*"):
        file.unlink()


def make(folder: Path, suite: str, package: Path) -> Image:
    """Make the disk anew, with `package` installed by apt, and with the kernel of the backports beside the own one."""
    root, tree = qemu_root(folder), folder / suite
    shutil.rmtree(tree, ignore_errors=True)
    hooks = [
        debian_disk.copies(PARTS),
        *debian_disk.installs(package),
        *(f'chroot "$1" systemctl enable {unit}' for unit in (*UNITS, "systemd-networkd")),
    ]
    backports = f"sed -n 's/ {suite} main/ {suite}-backports main/p' /etc/apt/sources.list"
    install = f"apt-get install -y --no-install-recommends -t {suite}-backports linux-image-amd64"
    script = f"{backports} >/etc/apt/sources.list.d/backports.list && apt-get update && {install}"
    hooks.append(f'chroot "$1" sh -c "{script}"')
    customized = (f"--customize-hook={hook}" for hook in hooks)
    debian_disk.bootstrap(suite, tree, PACKAGES, "--variant=minbase", *customized)
    debian_disk.write(tree, root / VM / f"{suite}.img", DISK)
    kernels = {}
    for kernel in debian_disk.kernels(tree):
        shutil.copy(kernel.linux, root / VM / f"{suite}-{kernel.release}")
        shutil.copy(kernel.initrd, root / VM / f"{suite}-{kernel.release}.initrd")
        kernels[kernel.release] = f"/{VM}/{suite}-{kernel.release}"
    release = (tree / "etc/debian_version").read_text().strip()
    shutil.rmtree(tree)
    return Image(suite, f"/{VM}/{suite}.img", kernels, release)


def overlay(root: Path, image: Image, name: str = "") -> str:
    """A new disk over the image's, which stays as it is; of several machines each takes one of its name."""
    disk = f"/{VM}/{name or image.suite}.qcow2"
    command = ["chroot", root, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", image.disk, disk]
    subprocess.run(command, check=True)
    return disk
