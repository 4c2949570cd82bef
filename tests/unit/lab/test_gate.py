"""The regression gate in real labs: a program that takes 1 % longer fails it, and half a percent does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.cli import main

SERVER = """exec python3 -c '
import socket
server = socket.create_server(("", 7))
while True:
    connection, _ = server.accept()
    while connection.recv(1):
        connection.sendall(b"x")'"""
CLIENT = """python3 -c '
import socket, time
with socket.create_connection(("{server}", 7)) as connection:
    for _ in range(TURNS):
        connection.sendall(b"x")
        connection.recv(1)
    time.sleep(PAUSE)'"""


def test_one_percent_more_time_fails_and_half_a_percent_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 round trips of 20 ms, with the handshake; 1 % is one more, and 0.5 % half of one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("emulator.report.figures.draw.draw_programs", lambda *_: [])

    def swept(*args: str, turns: int = 99, pause_s: float = 0) -> int:
        client = CLIENT.replace("TURNS", str(turns)).replace("PAUSE", str(pause_s))
        program = ("--server", SERVER, "--ready", "tcp:7", "--client", client, "--repeat", "2")
        cell = ("--in-lab", "--rtt", "20", "--rate", "100Mbit", "--tcp-profile", "default", "--repeats", "2")
        return main.main(["sweep", *cell, *program, *args])

    assert swept("--write-baseline", "baseline.yaml") == 0
    assert swept("--baseline", "baseline.yaml", pause_s=0.01) == 0
    assert "+0.50 %  same" in capsys.readouterr().out
    assert swept("--baseline", "baseline.yaml", turns=100) == 8
    out, err = capsys.readouterr()
    assert "+1.00 %  REGRESSION" in out
    assert "completion time +1.00 %" in err
