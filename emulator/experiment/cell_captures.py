"""Where the frames of a cell are captured: RUN/pcap/ID.N/, one folder a measurement."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution

FOLDER = "pcap"


class CellCaptures(Struct, frozen=True):
    """What a run captures: into which run folder, and how many bytes of each frame (0: all)."""

    run: Path
    snap_bytes: int

    def folder(self, spec: CellSpec) -> Path:
        """The folder of one measurement, which is made."""
        place = self.run / self._name(spec)
        place.mkdir(parents=True, exist_ok=True)
        return place

    def placed(self, done: Execution) -> Execution:
        """The same with the files' paths in the run folder instead of their names."""
        at = self._name(done.result.spec)
        files = tuple(replace(file, name=str(at / file.name)) for file in done.result.captures)
        return replace(done, result=replace(done.result, captures=files))

    @staticmethod
    def _name(spec: CellSpec) -> Path:
        return Path(FOLDER) / spec.stem
