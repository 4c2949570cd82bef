"""Build a Vagrant box for libvirt: a Debian with Longhaul, its kernel beside its disk, the insecure key of Vagrant.

The appliance and the hosts are machines of this one box. Longhaul's service is off: the Vagrantfile starts it on the
appliance. The key is public knowledge, as with every box: keep such machines on private networks.

Example: sudo scripts/vagrant/box dist --out /tmp/longhaul.box
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import debian_disk
import needed_programs

SUITE = "trixie"
PARTS = Path(__file__).with_name("vagrant_box")
"""The box's own Vagrantfile, and in root/ the files that a machine has besides its packages."""
DISK = "disk.raw", "box.img"
SIZE_GIB = 10
SYSTEM = "linux-image-cloud-amd64,systemd-sysv,systemd-resolved,dbus,udev,kmod,ca-certificates"
REACHED = "openssh-server,openssh-client,sudo,rsync"
"""What Vagrant needs, and the appliance on its hosts."""
TOOLS = "iperf3,iproute2,iputils-ping,util-linux,ethtool,procps,python3,python3-yaml"
IDLE = "e2scrub_reap.service e2scrub_all.timer apt-daily.timer apt-daily-upgrade.timer"
"""What never starts, where Debian has it: it would disturb a measurement, and the disk does not live long."""
KEY = (
    "ssh-rsa "
    "AAAAB3NzaC1yc2EAAAABIwAAAQEA6NF8iallvQVp22WDkTkyrtvp9eWW6A8YVr+kz4TjGYe7gHzIw+niNltGEFHzD8+v1I2YJ6oXevct1YeS0o9H"
    "ZyN1Q9qgCgzUFtdOKLv6IedplqoPkcmF0aYet2PkEDo3MlTBckFXPITAMzF8dJSIFo9D8HfdOV0IAdx4O7PtixWKn5y2hMNG0zQPyUecp4pzC6ki"
    "vAIhyfHilFR61RGL+GPXQ2MWZWFYbAGjyiYJnAmCP3NOTd0jMZEnDkbUvxhMmBYSdETk1rRgm+R4LOzFUGaHqHDLKLX+FIPKcF96hrucXzcWyLbI"
    "bEgE98OHlnVYCzRdK8jlqm8tehUc9c9WhQ== vagrant insecure public key"
)
"""Vagrant's, which it logs in with."""
NEEDED = {**debian_disk.NEEDED, "qemu-img": "qemu-utils"}
"""What builds the box, and the package of each."""


def main() -> None:
    """Build the box and print what to do with it."""
    parser = argparse.ArgumentParser(
        prog="scripts/vagrant/box", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", type=Path, help="the folder of longhaul's Debian package, such as dist")
    parser.add_argument("--out", type=Path, help="the file of the box; without it longhaul.box in that folder")
    parser.add_argument("--suite", default=SUITE, help=f"of Debian; {SUITE} without it")
    parser.add_argument("--mirror", help="the archive to install from, such as one in your network")
    asked = parser.parse_args()
    check(asked.packages)
    began = time.monotonic()
    box = (asked.out or asked.packages / "longhaul.box").resolve()
    with tempfile.TemporaryDirectory(prefix="longhaul-box-") as made:
        folder = Path(made)
        # apt reads below it as a user of its own.
        folder.chmod(0o755)
        fill(folder, debian_disk.package_in(asked.packages), asked.suite, asked.mirror)
        pack(folder, box)
    print(f"{box}  {box.stat().st_size} bytes, in {time.monotonic() - began:.0f} s")
    print(f"vagrant box add --name longhaul {box}")


def check(packages: Path, has: Callable[[str], object] = shutil.which, user: int | None = None) -> None:
    """End the program where a tool, the Debian package or root is missing, with what to do."""
    needed_programs.check("the box needs", NEEDED, has)
    debian_disk.package_in(packages)
    if (os.geteuid() if user is None else user) != 0:
        sys.exit("a root file system is made as root: sudo scripts/vagrant/box ...")


def fill(folder: Path, package: Path, suite: str, mirror: str | None) -> None:
    """Make all files of the box in a folder."""
    tree, (raw, image) = folder / "tree", DISK
    hooks = [f"--customize-hook={hook}" for hook in customized(package)]
    # Before the kernel is installed, and its initrd made.
    hooks.insert(0, f"--essential-hook={debian_disk.copies(PARTS / 'root')}")
    packages = ",".join((SYSTEM, REACHED, TOOLS))
    debian_disk.bootstrap(suite, tree, packages, "--variant=minbase", *hooks, mirror=mirror)
    kernel = debian_disk.kernels(tree)[-1]
    shutil.copy(kernel.linux, folder / "vmlinuz")
    shutil.copy(kernel.initrd, folder / "initrd.img")
    debian_disk.write(tree, folder / raw, f"{SIZE_GIB}G")
    convert = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2"]
    subprocess.run([*convert, folder / raw, folder / image], check=True)
    shutil.copy(PARTS / "Vagrantfile", folder)
    metadata = {"provider": "libvirt", "format": "qcow2", "virtual_size": SIZE_GIB}
    (folder / "metadata.json").write_text(json.dumps(metadata) + "\n", "utf-8")


def customized(package: Path) -> Iterator[str]:
    """The hooks that make a machine of Vagrant's of the installed Debian."""
    yield from debian_disk.installs(package)
    yield 'rm -r "$1/packages"'
    yield 'chroot "$1" useradd --create-home --shell /bin/bash vagrant'
    yield 'install -d -m 700 "$1/home/vagrant/.ssh"'
    yield f'echo "{KEY}" >"$1/home/vagrant/.ssh/authorized_keys"'
    yield 'chroot "$1" chown -R vagrant:vagrant /home/vagrant'
    yield 'chroot "$1" systemctl enable systemd-networkd'
    yield 'chroot "$1" systemctl disable longhaul'
    yield f'chroot "$1" systemctl mask {IDLE}'
    # Empty, it is made at the boot: machines with one identity would get one address. It would also be a first boot
    # without the file, which starts what is off.
    yield ': >"$1/etc/machine-id"'


def pack(folder: Path, box: Path) -> None:
    """Pack the files of the box. The disk is compressed already."""
    with tarfile.open(box, "w") as packed:
        for name in ("metadata.json", "Vagrantfile", "vmlinuz", "initrd.img", DISK[1]):
            packed.add(folder / name, name)


if __name__ == "__main__":
    main()
