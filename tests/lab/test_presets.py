"""The presets that run real programs: each law, what it predicts, and the one setting that helps, in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from support.preset_laws import ENDS, RTTS, law
from support.preset_laws import rows as rows_of

from emulator.cli.main import cli

LAB_PACKAGES = ("curl", "git", "lighttpd", "nginx", "openssl", "postgresql", "redis-server", "redis-tools", "rsync")
"""What `support/jobs.py` puts on top of the image for this file."""


def swept(folder: Path, preset: str, *options: str, rtts: str = RTTS) -> list[dict[str, str]]:
    """The lines of the CSV that `longhaul sweep` writes for this preset. No cell failed and none is invalid."""
    argv = ["sweep", preset, "--rtt", rtts, "--repeat", "1", "--runs", str(folder), *options]
    done = CliRunner().invoke(cli, argv)
    assert done.exit_code == 0, f"{done.output}{done.exception!r}"
    rows = rows_of(folder)
    assert len(rows) == len(rtts.split(","))
    return rows


EIGHT_SCP = "for p in a b c d e f g h; do scp -q -F ssh_config server:part.a$p . & done; wait; test -s part.ah"
NINE_SFTP = (
    'mkdir copy; for n in 1 2 3 4 5 6 7 8 9; do echo "get $n* copy" | sftp -q -F ssh_config -b - server & done; wait; '
    "test $(ls copy | wc -l) = 100"
)

TLS_KEPT = "curl -sSfk --http1.1 --remote-name-all https://{server}:8443/[1-20]"
TLS_CLOSED = f"{TLS_KEPT} -H 'Connection: close'"
LARGE = "curl -sSfk --http3-only -o large https://{server}:8443/large"
LARGER_BUFFER = "sed -i s/64k/2m/ nginx.conf && exec nginx -p $PWD -c nginx.conf -e stderr"


@pytest.mark.parametrize(
    ("preset", "options", "round_trips", "tolerance", "kind"),
    [
        ("download", ("--initcwnd", "10"), 8, 0.1, "slow start"),
        ("download", ("--initcwnd", "40"), 6, 0.1, "slow start"),
        ("scp", ("--tcp-profile", "max"), 61, 4, "round trips"),
        ("scp", ("--tcp-profile", "max", "--client", EIGHT_SCP), 31, 2, "round trips"),
        ("sftp", (), 620, 3, "round trips"),
        ("sftp", ("--client", NINE_SFTP), 92, 4, "round trips"),
        ("rsync", (), 19, 1, "round trips"),
        ("rsync-ssh", (), 25, 2, "round trips"),
        ("curl", (), 40, 0.1, "handshakes"),
        ("curl", ("--client", "curl -sSf --remote-name-all http://{server}:8080/[1-20]"), 21, 0.1, "round trips"),
        ("curl", ("--client", "curl -sSfkZ --remote-name-all https://{server}:8443/[1-20]"), 6, 0.1, ""),
        ("curl", ("--client", TLS_CLOSED), 60, 0.1, "handshakes"),
        ("curl", ("--client", TLS_KEPT), 22, 0.1, "round trips"),
        ("http3", (), 3, 0.1, "unknown"),
        ("http3", ("--client", LARGE), 18, 0.1, "unknown"),
        ("http3", ("--client", LARGE, "--server", LARGER_BUFFER), 9, 0.1, "unknown"),
        ("redis", (), 101, 0.1, "round trips"),
        ("redis", ("--client", "redis-cli -h {server} -p 6390 --pipe < commands"), 2, 0.1, "round trips"),
        ("git", (), 10, 0.5, "slow start"),
        ("pgbench", (), 78, 0.5, "round trips"),
        (
            "pgbench",
            ("--client", "pgbench -h {server} -p 5440 -n -t 10 -M extended -f pipelined.sql"),
            16,
            0.1,
            "round trips",
        ),
        ("replication", (), 10, 0.1, "unknown"),
    ],
)
def test_a_preset_costs_its_round_trips(
    preset: str, options: tuple[str, ...], round_trips: float, tolerance: float, kind: str, tmp_path: Path
) -> None:
    # A law that another command has needs two RTTs; that it holds in between is the preset's own test.
    rows = swept(tmp_path, preset, *options, rtts=ENDS if "--client" in options else RTTS)
    assert law(rows).round_trips == pytest.approx(round_trips, abs=tolerance)
    assert kind in ("", rows[-1]["kind"])


@pytest.mark.parametrize(("level", "options", "round_trips"), [("remote_apply", "-1qf", 1), ("local", "-qf", 0)])
def test_the_base_backup_of_a_standby_is_no_part_of_a_run(
    level: str, options: str, round_trips: float, tmp_path: Path
) -> None:
    """Nor is the connection that the standby reads from, on which the log follows after a commit that is `local`."""
    client = f"PGOPTIONS='-c synchronous_commit={level}' psql -h $PWD/primary {options} commits.sql"
    (row,) = swept(tmp_path, "replication", "--client", client, rtts="80")
    assert float(row["completion_mean_s"]) == pytest.approx(0.08 * round_trips, abs=0.02)
    assert row["connections"] == ""


def test_a_preset_over_a_lossy_lane_says_what_the_loss_cost(tmp_path: Path) -> None:
    (lossy,) = swept(tmp_path / "lossy", "redis", "--loss", "10%", rtts="80")
    (clean,) = swept(tmp_path / "clean", "redis", rtts="80")
    assert int(lossy["retransmits"]) > 0 == int(clean["retransmits"])
    assert float(lossy["completion_mean_s"]) > float(clean["completion_mean_s"])
    assert float(lossy["in_loss_ns"]) > 0 == float(clean["in_loss_ns"])
