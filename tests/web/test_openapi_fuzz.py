"""Requests made up from the OpenAPI document, good and bad: never a 5xx, always answered as the document says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from msgspec.structs import replace
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support import made_programs, made_requests
from support.made_results import execution
from support.web_daemon import TOKENS, House

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.hosts.requests.workload import RequestsWorkload

EXAMPLES = 12
LEFT_OUT = ("/api/events",)
"""A stream that never ends; its own tests read it."""

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
FEW = settings(
    max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def measured(spec: CellSpec) -> Execution:
    """A result of the workload's kind."""
    if isinstance(spec.workload, RequestsWorkload):
        return Execution(replace(made_requests.result(spec.workload.requests), spec=spec), {})
    return made_programs.execution(spec) if spec.workload.kind == "program" else execution(spec)


def operations() -> list[tuple[str, str, GenerationMode]]:
    """Every path and method of the document; what takes nothing cannot be asked wrongly."""
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[str, Any] = House(Path(folder)).client.get("/api/openapi.json").json["paths"]  # type: ignore[index]
    return [
        (path, method.upper(), mode)
        for path, methods in paths.items()
        for method, said in methods.items()
        for mode in GenerationMode
        if path not in LEFT_OUT and (mode is GenerationMode.POSITIVE or "requestBody" in said or said["parameters"])
    ]


@pytest.mark.parametrize(("path", "method", "mode"), operations())
def test_made_up_requests(path: str, method: str, mode: GenerationMode, tmp_path: Path) -> None:
    house = House(tmp_path, runner=measured)
    house.up()
    schema = schemathesis.openapi.from_wsgi("/api/openapi.json", house.app).include(path=path, method=method)
    operation = next(iter(schema.get_all_operations())).ok()
    tried = 0

    @FEW
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: schemathesis.Case) -> None:
        nonlocal tried
        tried += 1
        if "/lanes/" in path and tried % 2:
            case.path_parameters["name"] = "london"  # a lane that is there
        house.guard.throttle._failed.clear()
        house.tick()
        case.call_and_validate(headers={"Authorization": f"Bearer {TOKENS.write}"}, checks=CHECKS)

    ask()
    house.runs.stop()
    assert tried
