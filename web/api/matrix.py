"""The endpoints of the matrix of all pairs of sites, and of its verification."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from typing import Any

from msgspec.structs import replace
from pydantic import Field
from werkzeug.exceptions import NotFound

from emulator.control.status import Status
from emulator.errors import InputError
from emulator.experiment import rtt_certificate
from emulator.experiment.rtt_certificate import PairReasons, Unanswered
from emulator.model.topology import Topology
from web.api.routing import EndpointTable, Query, flag, whole
from web.api.schemas import Answer
from web.certificates import CertificateAnswer, PairAnswer, ProofAnswer
from web.context import here
from web.verifications import Verification, Wanted

table = EndpointTable()
PACKETS = 1000


class VerificationAnswer(Answer):
    """A verification: running, done, cancelled or failed; `finished` of `total` pairs and lanes are measured.

    In an event, `pairs`, `unanswered`, `impairments` and `reasons` are only those that are new.
    """

    state: str
    total: int
    finished: int
    step: str
    pairs: list[PairAnswer]
    unanswered: list[Unanswered]
    impairments: list[ProofAnswer]
    reasons: list[PairReasons]
    certificate: str | None
    trouble: str
    version: int = Field(description="of two answers or events the one with the larger version is newer")


class MatrixPairAnswer(Answer):
    """Two hosts: the RTT that is asked for now, and what the last certificate that asked for the same found.

    `measured`, `certificate` and `created` are null when there is none. `unmeasurable` is the reason why nothing here
    can measure it, empty where it can be measured.
    """

    one: str
    other: str
    asked_ns: int
    unmeasurable: str
    measured: PairAnswer | None = None
    unanswered: Unanswered | None = None
    why: tuple[str, ...] = ()
    certificate: str | None = None
    created: str | None = None


class MatrixAnswer(Answer):
    """All pairs of the hub and the sites, the hub first; nothing when nothing is up. `verification` is the last one."""

    topology: str | None
    hub: str | None
    sites: list[str]
    pairs: list[MatrixPairAnswer]
    verification: VerificationAnswer | None


def verification_answer(one: Verification) -> VerificationAnswer:
    """The answer about a verification."""
    return VerificationAnswer.model_validate(
        {
            "state": one.state, "total": one.total, "finished": one.finished, "step": one.step,
            "pairs": [asdict(pair) for pair in one.pairs], "unanswered": one.unanswered,
            "impairments": [proof.to_json() for proof in one.proofs], "reasons": one.reasons,
            "certificate": one.certificate, "trouble": one.trouble,
            "version": one.version,
        }
    )  # fmt: skip


@table("GET", "/api/matrix", MatrixAnswer, problems=(503,))
def matrix() -> MatrixAnswer:
    """The requested and the last measured RTT of every pair of sites, by way of the hub."""
    daemon = here()
    status, last = daemon.usecases.status(), daemon.verifications.last
    topology = _present(status)
    return MatrixAnswer(
        topology=topology.name if topology else None,
        hub=topology.hub if topology else None,
        sites=list(topology.sites) if topology else [],
        pairs=_pairs(topology) if topology else [],
        verification=verification_answer(last) if last else None,
    )


def _present(status: Status) -> Topology | None:
    """What is up, with the settings that are in effect at this instant."""
    if status.topology is None:
        return None
    lanes = tuple(one.lane for one in status.lanes)
    return replace(status.topology, lanes=lanes, schedule=None).in_effect


def _pairs(topology: Topology) -> list[MatrixPairAnswer]:
    try:
        measurable, why = {frozenset(pair) for pair in rtt_certificate.pairs(topology)}, ""
    except InputError as error:
        measurable, why = set(), str(error)
    unknown = why or "the topology names no machines on both ends that reach one another: give the lane a host"
    asked = {
        (one, other): rtt_certificate.asked_ns(topology, one, other)
        for one, other in combinations((topology.hub, *topology.sites), 2)
    }
    found = _verified(asked)
    return [
        MatrixPairAnswer(
            one=one, other=other, asked_ns=ns, unmeasurable="" if {one, other} in measurable else unknown,
            **found.get((one, other), {}),
        )
        for (one, other), ns in asked.items()
    ]  # fmt: skip


def _verified(asked: dict[tuple[str, str], int]) -> dict[tuple[str, str], dict[str, Any]]:
    """For each pair what the newest certificate says that asked for the same RTT."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for certificate in here().certificates.newest():
        for pair, said in _said(certificate):
            if pair not in found and asked.get(pair) == said.pop("asked_ns"):
                found[pair] = said | {"certificate": certificate.id, "created": certificate.created}
        if len(found) == len(asked):
            break
    return found


def _said(certificate: CertificateAnswer) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """What a certificate says of its pairs."""
    why = {(one.one, one.other): one.why for one in certificate.reasons}
    rows: list[tuple[str, PairAnswer | Unanswered]] = [("measured", pair) for pair in certificate.pairs]
    rows += [("unanswered", pair) for pair in certificate.unanswered]
    return [
        ((one.one, one.other), {key: one, "asked_ns": one.asked_ns, "why": why.get((one.one, one.other), ())})
        for key, one in rows
    ]  # fmt: skip


def _pair(text: str) -> tuple[str, str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise ValueError(f"{text!r} is not a pair: write ONE,OTHER")
    return names[0], names[1]


WANTED = {
    "pair": Query(_pair, {"type": "string", "examples": ["california,japan"]}, "two hosts; all pairs unless said"),
    "count": Query(whole(1, 100), {"type": "string", "examples": ["10"]}, "echoes per pair of hosts"),
    "impairments": Query(flag, {"type": "string", "enum": ["0", "1"]}, "1: measure loss, jitter, rate and more, too"),
    "packets": Query(
        whole(100, 100_000), {"type": "string", "examples": [str(PACKETS)]}, "packets per direction for impairments"
    ),
}  # fmt: skip


@table("POST", "/api/verification", VerificationAnswer, status=201, query=WANTED, problems=(409, 503))
def start_verification(
    pair: tuple[str, str] | None = None, count: int = 10, impairments: bool = False, packets: int = PACKETS
) -> VerificationAnswer:
    """Verify a pair, or all, in the background, and file the certificate; nobody can change the lanes meanwhile."""
    wanted = Wanted((pair,) if pair else (), count, packets if impairments else None)
    return verification_answer(here().verifications.start(wanted))


@table("GET", "/api/verification", VerificationAnswer, problems=(404,))
def verification() -> VerificationAnswer:
    """The active verification, or the last one, with all that it has found so far."""
    return _or_none(here().verifications.last)


@table("POST", "/api/verification/cancel", VerificationAnswer, problems=(404,))
def cancel_verification() -> VerificationAnswer:
    """Cancel the active verification: it ends after what is measured at present, and files no certificate."""
    return _or_none(here().verifications.cancel())


def _or_none(found: Verification | None) -> VerificationAnswer:
    if found is None:
        raise NotFound("there was no verification yet")
    return verification_answer(found)
