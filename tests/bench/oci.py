"""The OCI images: built twice, and run by runc as Docker would run them. By hand, as root.

RELEASE is a folder with the Debian packages of scripts/release. Builds the images of them twice and compares the bytes,
unpacks them, and starts containers with Docker's default seccomp profile, mounts and paths: the demo as two users, the
doctor where the lab cannot run, and the appliance between two cables with NET_ADMIN alone (and NET_RAW, for the wire
engine, where this kernel has no netem). Prints what was seen; exit code 1 when anything is not as it should be. Takes
5 minutes on two idle CPUs, most of it Debian's packages, from the network. In a lab, whose kernel has netem, the
appliance can be tried on every machine. The lab's kernel then needs container.config. The lab sleeps for a second
first: runc takes a container that starts at the instant of the boot for one that has stopped.

Example:
  scripts/release --out dist
  apt-get install -y runc buildah mmdebstrap golang-github-docker-docker-dev
  .venv/bin/python tests/bench/oci.py dist
  .venv/bin/python tests/bench/oci.py dist --images dist    # those of scripts/release --oci, built no more
  longhaul lab build --kernel 6.12 --config tests/bench/container.config --name container
  longhaul lab run --host-root --kernel container -- sh -c 'mount -t cgroup2 none /sys/fs/cgroup && sleep 1 &&
      .venv/bin/python tests/bench/oci.py dist --images dist --only appliance'
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from helped import parser

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import release_oci
from support.containers import Run, Runtime, unpack
from support.folders import ROOT
from support.waiting import until

from emulator.kernel import capabilities

PROFILE = Path("/usr/share/gocode/src/github.com/docker/docker/profiles/seccomp/default.json")
"""Docker's own, in Debian's package golang-github-docker-docker-dev."""
BOX, FARS = "lh-bench-box", ("lh-bench-far1", "lh-bench-far2")
NETNS = Path("/run/netns") / BOX
QUIET = {"net.ipv6.conf.default.disable_ipv6": "1"} | {
    f"net.bridge.bridge-nf-call-{name}": "0" for name in ("iptables", "ip6tables", "arptables")
}
TOPOLOGY = """\
name: office
hub: new-york
on_drift: restore
defaults: {rate: 100Mbit}
lanes: {tokyo: {rtt: 80ms, ports: {hub: eth1, site: eth2}}}
"""
STOP_S = 10
"""After it `docker stop` kills."""

See = Callable[[str, bool, object], None]


def main() -> int:
    """All of it; the exit code."""
    asked = parser(__doc__)
    asked.add_argument("release", type=Path)
    asked.add_argument("--images", type=Path, help="the folder of images that are there already")
    asked.add_argument("--only", choices=("lab", "appliance"), help="this image, not both")
    asked.add_argument("--seccomp", type=Path, default=PROFILE, help="the profile, in Docker's form")
    given = asked.parse_args()
    if not given.seccomp.exists():
        asked.error(f"there is no {given.seccomp}: apt-get install -y golang-github-docker-docker-dev")
    bad = 0

    def see(what: str, is_so: bool, seen: object) -> None:
        nonlocal bad
        bad += not is_so
        print(f"{'ok ' if is_so else 'NOT'} {what}: {seen}", flush=True)

    profile = json.loads(given.seccomp.read_text())
    with tempfile.TemporaryDirectory(prefix="longhaul-oci-bench-") as made:
        folder = Path(made)
        # A user who is not root has to reach the root file system in it.
        folder.chmod(0o755)
        images = given.images or built(given.release, folder, see)
        lab, appliance = (images / release_oci.file_name(image) for image in release_oci.IMAGES)
        for place, archive, tried in (("lab", lab, laboratory), ("appliance", appliance, lanes)):
            if given.only not in (None, place):
                continue
            began = time.monotonic()
            image = unpack(archive, folder / place / "root")
            said = json.dumps(image["config"]["Labels"])
            see(f"{image['name']} unpacked", image["os"] == "linux", f"{time.monotonic() - began:.0f} s {said}")
            (folder / place / "containers").mkdir()
            tried(Runtime(folder / place / "containers", folder / place / "root", image, profile), folder, see)
    return bool(bad)


def built(release: Path, folder: Path, see: See) -> Path:
    """Build the images twice; the folder of the first."""
    packages = sorted(release.glob("*.deb"))
    said = subprocess.check_output(["git", "log", "-1", "--format=%ct %H"], cwd=ROOT, text=True)
    epoch, revision = said.split()
    for name in ("one", "other"):
        began = time.monotonic()
        made, installed = release_oci.build(packages, folder / name, epoch, revision)
        sizes = ", ".join(f"{file.name} {file.stat().st_size} bytes" for file in made)
        print(f"built in {time.monotonic() - began:.0f} s, {len(installed)} packages: {sizes}", flush=True)
    differ = [file.name for file in made if not filecmp.cmp(folder / "one" / file.name, file, shallow=False)]
    see("two builds have the same bytes", not differ, differ)
    return folder / "one"


def laboratory(runtime: Runtime, folder: Path, see: See) -> None:
    """The demo as two users, and the doctor where no lab can run."""
    work = folder / "work"
    work.mkdir()
    os.chown(work, 1234, 1234)
    closed = Run(
        ["demo"], user=(1234, 1234), capabilities=(), no_new_privileges=True, read_only=True,
        tmpfs={"/tmp": "exec,size=1g"}, volumes={work: "/work"},
    )  # fmt: skip
    for what, asked in (("as Docker runs it", Run(["demo"])), ("read-only, as user 1234, no capability", closed)):
        began = time.monotonic()
        done = runtime.run(asked)
        exact = "no pair is off by more than" in done.stdout
        said = done.stdout.strip().splitlines()[-1:] if exact else done.stdout + done.stderr
        see(f"demo {what}", done.returncode == 0 and exact, f"{time.monotonic() - began:.0f} s {said}")
    see("its results are in the volume", bool(list(work.glob("runs/*/machine.json"))), list(work.glob("runs/*")))
    expected = (
        (Run(["doctor", "lab"]), 0, "", ""),
        (Run(["doctor", "lab"], env={"TMPDIR": "/dev/shm"}), 8, "/dev/shm is mounted noexec", "export TMPDIR=/tmp"),
        (Run(["doctor", "lab"], read_only=True), 8, "/tmp is not writable", "--tmpfs /tmp:exec"),
        (Run(["doctor", "lab"], tmpfs={"/tmp": "rw"}), 8, "/tmp is mounted noexec", "export TMPDIR=/var/tmp"),
        (Run(["doctor", "lab"], tmpfs={"/tmp": "exec,size=64m"}), 8, "of the guest's memory", "TMPDIR=/var/tmp"),
    )
    for asked, code, seen, fix in expected:
        done = runtime.run(asked)
        told = done.returncode == code and seen in done.stdout and fix in done.stdout
        see(f"doctor lab tells {seen or 'that all is well'!r}", told, done.stdout.strip())


def lanes(runtime: Runtime, folder: Path, see: See) -> None:
    """The appliance between two cables, with and without writable sysctls."""
    (folder / "topology").mkdir()
    (folder / "topology/office.yaml").write_text(TOPOLOGY)
    held = ["NET_ADMIN"] if capabilities.has_netem() else ["NET_ADMIN", "NET_RAW"]
    asked = Run(capabilities=held, network=NETNS, volumes={folder / "topology": "/topology"})
    with cabled() as cables, runtime.started(asked) as container:
        see("serves", until(lambda: "event=watching" in container.log.read_text()), container.log.read_text())
        cables()
        before = settled()
        done = container.exec("longhaul", "up", "/topology/office.yaml")
        options = all(f"--sysctl {name}={value}" in done.stderr for name, value in fixed().items())
        see("read-only sysctls are told", done.returncode == 4 and options, done.stderr.strip())
        see("and nothing is left", links() == before, "")
    quiet = {name: value for name, value in QUIET.items() if name in fixed()}
    (folder / "state").mkdir()
    volumes = {**asked.volumes, folder / "state": "/var/lib/longhaul"}
    again = Run(capabilities=held, network=NETNS, volumes=volumes, sysctls=quiet)
    with cabled() as cables, runtime.started(again) as container:
        see("serves", until(lambda: "event=watching" in container.log.read_text()), quiet)
        cables()
        before = settled()
        done = container.exec("longhaul", "doctor", "netem" if capabilities.has_netem() else "engine")
        see("doctor", done.returncode == 0, done.stdout.strip())
        done = container.exec("longhaul", "up", "/topology/office.yaml")
        see(f"up with {' and '.join(held)} alone", done.returncode == 0, (done.stdout + done.stderr).strip())
        rtt_ms = ping()
        see("80 ms through it", 80 <= rtt_ms < 120, f"{rtt_ms} ms at least")
        began = time.monotonic()
        code = container.stop(STOP_S)
        see("stops when it is asked to", code == 0, f"{code} after {time.monotonic() - began:.1f} s")
    returned(runtime, again, before, see)


def returned(runtime: Runtime, asked: Run, before: str, see: See) -> None:
    """The appliance again, with the state of before: it takes the cables as soon as they are there."""
    with cabled() as cables, runtime.started(asked) as container:
        see("serves again", until(lambda: "event=watching" in container.log.read_text()), "with the same state")
        cables()
        came = until(lambda: container.exec("longhaul", "status").returncode == 0)
        rtt_ms = ping()
        see("what was up is up with the ports", came and 80 <= rtt_ms < 120, f"{rtt_ms} ms at least")
        done = container.exec("longhaul", "set", "tokyo", "--rtt", "20ms")
        rtt_ms = ping()
        see("20 ms after a change", done.returncode == 0 and 20 <= rtt_ms < 60, f"{rtt_ms} ms at least")
        done = container.exec("longhaul", "status")
        see("status", done.returncode == 0 and "tokyo" in done.stdout, done.stdout.strip())
        done = container.exec("longhaul", "down")
        after = settled()
        said = (done.stdout + done.stderr).strip() if after == before else f"{before}\nbefore, and now\n{after}"
        see("down returns the ports", done.returncode == 0 and after == before, said)


def fixed() -> dict[str, str]:
    """What `up` needs where /proc/sys is read-only, as far as this kernel has it."""
    bridged = Path("/proc/sys/net/bridge").exists()
    return {name: value for name, value in QUIET.items() if bridged or "bridge" not in name}


@contextmanager
def cabled() -> Iterator[Callable[[], None]]:
    """A namespace for a container; the function puts two cables into it, whose other ends have addresses."""
    for name in (BOX, *FARS):
        subprocess.run(["ip", "netns", "add", name], check=True)

    def cables() -> None:
        for number, far in enumerate(FARS, 1):
            # Up from its first moment on: an appliance that takes it at once would return it down otherwise.
            sh(f"ip -n {BOX} link add eth{number} up type veth peer name eth0 netns {far}")
            sh(f"ip -n {far} link set eth0 up")
            sh(f"ip -n {far} addr add 10.9.0.{number}/24 dev eth0")

    try:
        yield cables
    finally:
        for name in (BOX, *FARS):
            subprocess.run(["ip", "netns", "del", name], check=False)


def settled() -> str:
    """The cables when both ends are up."""
    assert until(lambda: links().count("state UP") == len(FARS))
    return links()


def links() -> str:
    """The interfaces and their settings, without what two cables never share: indexes and addresses."""
    own = r"^\d+: |(?<=@if)\d+|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}"
    return re.sub(own, "", sh(f"ip -n {BOX} -d link"), flags=re.MULTILINE)


def ping() -> float:
    """The least RTT between the far ends in ms; 0 when nothing came back."""
    found = re.search(r"= ([\d.]+)/", sh(f"ip netns exec {FARS[0]} ping -c 5 -i 0.2 -q 10.9.0.2 || true"))
    return float(found[1]) if found else 0.0


def sh(script: str) -> str:
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
