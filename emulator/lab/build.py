"""Build the kernel and the image at the same time: they are independent, and the image mostly waits for downloads."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec.structs import replace

from emulator.errors import LabError
from emulator.lab import build_image, build_kernel, build_layer, kernel_choice, kernel_store
from emulator.lab.build_cache import Progress
from emulator.lab.build_layer import Layer
from emulator.lab.kernel_version import PTRACE
from emulator.lab.lab_root import LabRoot, RootChoice
from emulator.lab.named_kernel import Check

EXPECTED_S = {
    "download the kernel's source": 15, "unpack the kernel's source": 15, "configure the kernel": 10,
    "compile the kernel": 170, "download Debian packages": 20, "unpack Debian packages": 15,
    "install Python packages": 10, "compile Python packages": 20, "configure Debian packages": 15,
    "unpack the last build": 10, "copy the kernel's source": 20, "keep the build": 10, "boot the kernel": 1,
}  # fmt: skip
"""The duration of each step on two CPUs, in seconds, for the progress display."""

CONGESTION_CONTROLS = "/proc/sys/net/ipv4/tcp_available_congestion_control"

Boot = Callable[[LabRoot, str, Path], str]
"""Runs a script as root of a lab, in a folder of the host that it may change, and returns its output."""


def build_lab(progress: Progress, choice: RootChoice, boot: Boot) -> LabRoot:
    """Build what this choice lacks: the kernel, the image, the layer of its packages. Raises LabError.

    Two threads call `progress`. A layer is downloaded while the kernel compiles, and configured in a lab.
    """
    if kernel_choice.is_settled(choice) and (present := ready(choice)):
        return present
    if choice.kernel or choice.cc_sources:
        return _with_own_kernel(progress, choice, boot)
    with ThreadPoolExecutor(2, thread_name_prefix="build") as pool:
        kernel = pool.submit(build_kernel.build, progress, choice.config)
        files = None if choice.host else pool.submit(_files, progress, choice, kernel.result, boot)
        # The files first: they succeed or fail minutes before the kernel.
        layer = files.result() if files else None
        return _lab_root(choice, kernel.result(), layer)


def _with_own_kernel(progress: Progress, choice: RootChoice, boot: Boot) -> LabRoot:
    """As `build_lab`, with a kernel of the user's: it must boot, so what it boots with is built first."""
    settled = settle(progress, choice, boot)
    if not settled.kernel:
        return build_lab(progress, settled, boot)
    linux = _linux(settled)
    layer = None if choice.host else _files(progress, settled, lambda: linux, boot)
    return _lab_root(settled, linux, layer)


def settle(progress: Progress, choice: RootChoice, boot: Boot) -> RootChoice:
    """The choice with every kernel built. Raises LabError."""
    try:
        return kernel_choice.settled(choice, progress, checker(choice, progress, boot))
    except ValueError as error:  # a file that was there when the command line was read
        raise LabError(str(error)) from None


def checker(choice: RootChoice, progress: Progress, boot: Boot) -> Check:
    """Boots an executable, with the image or this machine's root, and returns the congestion controls that it has."""

    def check(linux: Path, mode: str) -> str:
        image = Path("/") if choice.host else build_image.build(progress)
        root = LabRoot(RootChoice(host=choice.host), linux, image, mode=mode)
        progress("boot the kernel", 0, 1)
        with tempfile.TemporaryDirectory(prefix="longhaul-kernel-") as folder:
            try:
                said = boot(root, f"cat {CONGESTION_CONTROLS}", Path(folder))
            except LabError as error:
                raise LabError(f"the kernel was built and does not boot ({mode}): {error}") from None
        progress("boot the kernel", 1, 1)
        return said

    return check


def ready(choice: RootChoice) -> LabRoot | None:
    """What is built already for this choice; None when something is missing. Raises LabError for a spoilt layer."""
    linux, image = _linux(choice), build_image.place()
    layer = build_layer.place(image, choice.packages) if choice.packages else None
    if not linux.exists() or not (choice.host or image.exists()) or (layer and not layer.exists()):
        return None
    return _lab_root(choice, linux, build_layer.load(layer) if layer else None)


def _files(progress: Progress, choice: RootChoice, kernel: Callable[[], Path], boot: Boot) -> Layer | None:
    """The image, and the layer on it."""
    image = build_image.build(progress)
    if not choice.packages:
        return None

    def configure(layer: Path, script: str, folder: Path) -> str:
        usual = replace(choice, packages=(), kernel_config=choice.config)
        return boot(replace(_lab_root(usual, kernel(), None), image=image, layer=layer), script, folder)

    return build_layer.build(image.parent, choice.packages, configure, progress)


def _lab_root(choice: RootChoice, linux: Path, layer: Layer | None) -> LabRoot:
    image = Path("/") if choice.host else build_image.place() / "root"
    record = kernel_store.record_of(linux.parent) if choice.kernel else None
    mode = record.mode if record else PTRACE
    return LabRoot(choice, linux, image, layer.root if layer else None, layer.owners if layer else (), mode)


def _linux(choice: RootChoice) -> Path:
    """The executable of a choice that is settled. Raises LabError when a user's own is not there any more."""
    return (kernel_store.folder_of(choice.kernel) if choice.kernel else build_kernel.place(choice.config)) / "linux"
