"""Build the kernel and the image at the same time: they are independent, and the image mostly waits for downloads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emulator.lab import build_image, build_kernel, build_layer
from emulator.lab.build_cache import Progress
from emulator.lab.build_layer import Layer
from emulator.lab.lab_root import LabRoot, RootChoice

EXPECTED_S = {
    "download the kernel's source": 15, "unpack the kernel's source": 15, "configure the kernel": 10,
    "compile the kernel": 170, "download Debian packages": 20, "unpack Debian packages": 15,
    "install Python packages": 10, "compile Python packages": 20, "configure Debian packages": 15,
}  # fmt: skip
"""The duration of each step on two CPUs, in seconds, for the progress display."""


Boot = Callable[[LabRoot, str, Path], str]
"""Runs a script as root of a lab, in a folder of the host that it may change, and returns its output."""


def build_lab(progress: Progress, choice: RootChoice, boot: Boot) -> LabRoot:
    """Build what this choice lacks: the kernel, the image, the layer of its packages. Raises LabError.

    Two threads call `progress`. A layer is downloaded while the kernel compiles, and configured in a lab.
    """
    if present := ready(choice):
        return present
    with ThreadPoolExecutor(2, thread_name_prefix="build") as pool:
        kernel = pool.submit(build_kernel.build, progress, choice.config)
        files = None if choice.host else pool.submit(_files, progress, choice, kernel.result, boot)
        # The files first: they succeed or fail minutes before the kernel.
        layer = files.result() if files else None
        return _lab_root(choice, kernel.result(), layer)


def ready(choice: RootChoice) -> LabRoot | None:
    """What is built already for this choice; None when something is missing. Raises LabError for a spoilt layer."""
    linux, image = build_kernel.place(choice.config) / "linux", build_image.place()
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
        return boot(LabRoot(RootChoice(kernel_config=choice.config), kernel(), image, layer), script, folder)

    return build_layer.build(image.parent, choice.packages, configure, progress)


def _lab_root(choice: RootChoice, linux: Path, layer: Layer | None) -> LabRoot:
    image = Path("/") if choice.host else build_image.place() / "root"
    return LabRoot(choice, linux, image, layer.root if layer else None, layer.owners if layer else ())
