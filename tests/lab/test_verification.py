"""A verification on a real kernel: what it measures, that it repairs nothing, and that it names what has drifted."""

from __future__ import annotations

import subprocess
from pathlib import Path

from emulator.config import loader
from emulator.control.appliance import Appliance
from web.certificates import Certificates
from web.service import UseCases
from web.verifications import Verification, Verifications, Wanted

STAR = loader.loads("{name: x, hub: hub, lanes: {near: {rtt: 8ms, inbound: {loss: 5%}}, far: {rtt: 80ms}}}")
MS = 10**6


def verified(verifications: Verifications, wanted: Wanted) -> Verification:
    """What a verification has found at its end."""
    verifications.start(wanted)
    verifications.wait()
    assert verifications.last
    return verifications.last


def test_pairs_and_impairments_are_measured_and_what_has_drifted_is_named(appliance: Appliance, tmp_path: Path) -> None:
    appliance.up(STAR)
    certificates = Certificates(tmp_path / "certificates")
    verifications = Verifications(UseCases(appliance), certificates, lambda _: None)
    done = verified(verifications, Wanted((("far", "near"),), 3, 2000))
    assert (done.state, done.trouble, done.reasons) == ("done", "", ())
    (pair,) = done.pairs
    assert (pair.one, pair.other, pair.asked_ns // MS, pair.passed) == ("near", "far", 88, True)
    rows = {(proof.lane, proof.direction, proof.row.what): proof.row for proof in done.proofs}
    assert 3 < rows["near", "inbound", "loss"].measured < 7
    assert (rows["far", "outbound", "delay"].asked, rows["far", "outbound", "delay"].passed) == (40, True)
    assert certificates.get(str(done.certificate)).passed == all(proof.row.passed for proof in done.proofs)
    changed = ["tc", "qdisc", "change", "dev", "lhs-far", "root", "netem", "delay", "47ms", "limit", "1000"]
    subprocess.run(changed, check=True)
    again = verified(verifications, Wanted((("hub", "far"),), 3))
    (pair,), (reasons,) = again.pairs, again.reasons
    assert (pair.passed, round((pair.median_ns - pair.asked_ns) / MS)) == (False, 7)
    assert reasons.why[0] == "The median is 7 ms above what is asked; 0.01 ms are allowed."
    assert "far has drifted from the topology" in reasons.why[1] and "lhs-far" in reasons.why[1]
    assert not certificates.get(str(again.certificate)).passed
    status = appliance.status()
    assert (status.drift != [], status.leased, appliance.topology()) == (True, False, STAR)
