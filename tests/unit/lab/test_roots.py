"""Labs whose programs are not the image's: what runs, what it sees, and that nothing of the host changes."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.cli.main import main
from emulator.errors import LabError, MissingError
from emulator.lab import boot, boundary, build_image, build_layer, landlock
from emulator.lab.boot import CommandOutput
from emulator.lab.boot_options import BootOptions
from emulator.lab.lab_root import LabRoot, RootChoice
from emulator.system.state_dir import STATE_DIR

HOST = RootChoice(host=True)
PACKAGES = RootChoice(packages=("hello", "netcat-openbsd"))
"""Two small ones; `nc` is there only if dpkg has run the package's script."""

MOUNT = 'import ctypes, sys; sys.exit(-ctypes.CDLL(None).mount(b"none", b"/m", b"hostfs", 0, sys.argv[1].encode()))'
"""What mount(8) of the lab's Debian does; older ones speak otherwise to hostfs."""
ALL_OVER = """
for place in /usr/bin /etc; do echo lost > $place/new && cat $place/new; done
mkdir /m
for place in /usr/bin /etc {outside} /dev/shm; do
    {python} -c "$MOUNT" $place && echo lost > /m/new; cat /m/secret; umount /m
done
echo kept > file
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A runtime folder for these labs alone: others may be running on this machine."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield


@pytest.fixture(scope="module")
def layered() -> LabRoot:
    return boot.built(choice=PACKAGES)


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another Debian than the image, without Longhaul: its shell, and what that needs."""
    root, image = tmp_path_factory.mktemp("debian"), build_image.build(lambda *_: None)
    names = ("bin/dash", "bin/cat", "bin/touch", "lib64/ld-linux-x86-64.so.2")
    for name in (f"usr/{name}" for name in (*names, "lib/x86_64-linux-gnu/libc.so.6")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(image / name, root / name)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "bin/sh").symlink_to("dash")
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text('PRETTY_NAME="a small Debian"\n')
    return root


def state(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def said(choice: RootChoice, script: str, options: BootOptions = boot.DEFAULTS) -> CommandOutput:
    return boot.capture(["sh", "-c", script], options, choice)


def test_packages_are_configured_and_their_files_belong_to_whom_they_should(layered: LabRoot) -> None:
    done = said(
        PACKAGES, "hello; which nc; su nobody -s /bin/sh -c 'id -un'; stat -c %U /root; dpkg -s hello; awk --version"
    )
    assert done.stdout.startswith(
        b"Hello, world!\n/usr/bin/nc\nnobody\nroot\nPackage: hello\nStatus: install ok installed\n"
    )
    layer = build_layer.load(layered.image.parents[1] / str(layered.layer and layered.layer.parent.name))
    assert layer.unconfigured == ()
    assert layer.packages.keys() >= {"hello", "netcat-openbsd"}
    assert "bash" not in layer.packages, "the image has it"


def test_two_boots_of_a_layer_say_the_same() -> None:
    script = "ls -laR /etc /var | grep -v '^total' ; date +%s%N; head -c 8 /dev/urandom | od"
    assert said(PACKAGES, script).stdout == said(PACKAGES, script).stdout


def test_a_layer_is_read_only_and_closed_off(layered: LabRoot, tmp_path: Path) -> None:
    assert layered.layer
    before = state(layered.layer)
    done = said(PACKAGES, "echo lost > /usr/bin/hello && cat /usr/bin/hello", BootOptions(tmp_path))
    assert (done.exit_code, done.stdout) == (0, b"lost\n")
    assert state(layered.layer) == before
    assert boundary.roots(layered)[str(layered.layer)] == landlock.READ


def test_packages_that_do_not_exist_are_all_named_and_nothing_is_left() -> None:
    choice = RootChoice(packages=("hello", "no-such-one", "no-such-two"))
    with pytest.raises(LabError, match=r"^Debian trixie has no package no-such-one, no-such-two: apt-cache search"):
        boot.run(["true"], choice=choice)
    assert not build_layer.place(build_image.place(), choice.packages).exists()


def test_this_machines_programs_run_without_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").mkdir()
    built = boot.built(choice=HOST)
    monkeypatch.setattr(boot, "built", lambda *_, **__: built)
    monkeypatch.setattr(build_image, "place", lambda: pytest.fail("it is not asked for"))
    release = Path("/etc/os-release").read_bytes()
    done = said(
        HOST, "cat /etc/os-release; longhaul --version; echo $HOME; sleep 3600; pwd", BootOptions(tmp_path / "x")
    )
    assert done.stdout.startswith(release)
    assert done.stdout[len(release) :].decode().splitlines()[1:] == ["/run/longhaul", str(tmp_path / "x")]


def test_this_machine_is_not_changed_from_inside(tmp_path: Path) -> None:
    here, outside = tmp_path / "here", tmp_path / "outside"
    here.mkdir(), outside.mkdir()
    secret = Path("/dev/shm/secret")
    secret.write_text("of a folder that the lab does not need")
    try:
        script = ALL_OVER.format(outside=outside, python=sys.executable)
        done = said(HOST, script, BootOptions(here, {"MOUNT": MOUNT}))
    finally:
        secret.unlink()
    assert (here / "file").read_text() == "kept\n"
    assert done.stdout.startswith(b"lost\nlost\n")
    if boundary.weaknesses(landlock.abi()):
        return
    assert done.stdout == b"lost\nlost\n", "of /dev/shm the lab sees its own"
    assert [Path(place, "new").exists() for place in ("/usr/bin", "/etc", "/dev/shm", outside)] == [False] * 4
    assert done.stderr.count(b"cannot create /m/new: Permission denied") == 4, done.stderr.decode()


def test_another_root_has_its_own_files_and_longhaul(debian: Path, tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text("name: x\nhub: near\nlanes: {far: {rtt: 20ms}}\n")
    before = state(debian)
    script = """cat /etc/os-release; echo /usr/bin/*; touch /usr/bin/new /etc/new; pwd
    longhaul up topology.yaml && echo /run/netns/* && longhaul verify far >file; echo $PYTHONPATH"""
    done = said(RootChoice(folder=str(debian)), script, BootOptions(tmp_path))
    lines = done.stdout.decode().splitlines()
    assert lines[0] == 'PRETTY_NAME="a small Debian"'
    assert lines[1:3] == [" ".join(f"/usr/bin/{name}" for name in ("cat", "dash", "sh", "touch")), str(tmp_path)]
    assert lines[-2:] == ["/run/netns/lh-far /run/netns/lh-near", ""], done.stderr.decode()
    assert "20.000" in (tmp_path / "file").read_text()
    assert state(debian) == before


@pytest.mark.parametrize("root", ["image", "folder"])
def test_a_project_can_be_read_and_not_changed(root: str, debian: Path, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below/file").write_text("of the project\n")
    choice = RootChoice(folder=str(debian) if root == "folder" else "", project=str(tmp_path))
    script = f"cd {tmp_path}; cat below/file; echo lost > below/file; echo lost > new"
    done = said(choice, script, BootOptions())
    assert done.stdout == b"of the project\n"
    assert done.stderr.count(b"Read-only file system") == 2, done.stderr.decode()
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {"below", "below/file"}


def test_our_own_commands_keep_the_images_files(debian: Path) -> None:
    choice = RootChoice(folder=str(debian))
    script = "import pydantic, pyroute2, os; print(os.listdir('/lab/programs/usr/bin'))"
    done = boot.capture(["python3", "-c", script], BootOptions(own=True), choice)
    assert b"dash" in done.stdout, done.stderr.decode()
    with pytest.raises(MissingError, match="has no program python3: name another folder"):
        boot.run(["python3"], choice=choice)


@pytest.mark.parametrize(
    ("argv", "code", "text"),
    [
        (["lab", "run", "--", "no-such-program"], 4, "the lab's image has no program no-such-program: add its Debian"),
        (["lab", "run", "--host-root", "--", "no-such-program"], 4, "this machine has no program no-such-program: "),
        (["lab", "run", "--root", "/nowhere", "--", "true"], 2, "--root: '/nowhere' is no folder"),
        (["lab", "shell", "--with", "A,b c"], 2, "--with: 'A' is no name of a Debian package"),
        (["sweep", "--in-lab", "--project", "/nowhere", "--rtt", "1"], 2, "--project: '/nowhere' is no folder"),
        (["sweep", "--in-lab", "--project", "/tmp", "--rtt", "1"], 2, "--project: '/tmp' cannot be seen in the lab"),
        (["sweep", "--in-lab", "--project", "/proc", "--rtt", "1"], 2, "--project: '/proc' cannot be seen in the lab"),
        (["sweep", "--project", ".", "--rtt", "1"], 2, "--project: it is for the lab: add --in-lab"),
        (["sweep", "--with", "hello", "--rtt", "1"], 2, "--with: it is for the lab: add --in-lab"),
        (["sweep", "--kernel-config", "full", "--rtt", "1"], 2, "--kernel-config: it is for the lab: add --in-lab"),
        (["sweep", "--scheduler", "local", "--host-root", "--rtt", "1"], 2, "is of this machine, and a cluster has"),
        (["sweep", "--in-lab", "--rtt", "1", "--client", "no-such-program", "--with", "hello,netcat-openbsd"], 4,
         "the lab's image with hello, netcat-openbsd has no program no-such-program: "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line_and_nothing_boots(
    argv: list[str], code: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boot, "_boot", lambda *_, **__: pytest.fail("it booted"))
    assert main(argv) == code
    assert text in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [], "no run folder either"


def swept(argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run folder of a sweep of one cell, in which a client asks a server three times."""
    monkeypatch.chdir(tmp_path)
    server = "while echo answer | nc -l -N -p 80 || echo answer | nc -l -q 0 -p 80; do :; done"
    cell = ["--rtt", "30", "--rate", "1Gbit", "--tcp-profile", "default", "--repeats", "1", "--repeat", "1"]
    client = ["--server", server, "--ready", "after:1s", "--client", "nc {server} 80"]
    assert main(["sweep", "--in-lab", *argv, *cell, *client]) == 0
    return next((tmp_path / "runs").iterdir())


def test_a_sweep_with_packages_and_captures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = swept(["--with", "netcat-openbsd,hello", "--pcap"], tmp_path, monkeypatch)
    machine, asked = (json.loads((run / name).read_text()) for name in ("machine.json", "run.json"))
    assert machine["lab"]["programs"] == "--with hello,netcat-openbsd"
    assert machine["lab"]["package hello"]
    assert machine["lab"]["layer"] == build_layer.place(build_image.place(), PACKAGES.packages).name
    assert asked["root"]["packages"] == ["hello", "netcat-openbsd"]
    (cell,) = json.loads((run / "results.json").read_text())["cells"]
    assert len(cell["captures"]) == 4
    assert len(list((run / "pcap").rglob("*.pcapng"))) == 4


WITH_STATE = f"""
mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=/var/lib,upperdir=/mnt/upper,workdir=/mnt/work none /var/lib
mkdir -p {STATE_DIR} && echo spoilt > {STATE_DIR}/intent.json && exec "$@"
"""
"""Runs a command on this machine as it would be if it had lanes of its own."""


def test_the_lanes_of_this_machine_are_not_the_labs() -> None:
    asked = "longhaul up topologies/new-york.yaml && longhaul status --json"
    longhaul = [sys.executable, "-m", "emulator", "lab", "run", "--host-root", "--", "sh", "-c", asked]
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", WITH_STATE, "sh", *longhaul], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, "spoilt" in ran.stdout + ran.stderr) == (0, False), ran.stderr
    assert '"hub": "new-york"' in ran.stdout
