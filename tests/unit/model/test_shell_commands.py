"""Which programs a line of the shell needs: the plain ones are found, and nothing is named that is not needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model.shell_commands import programs


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("rsync -a x y", ("rsync",)),
        ("zcat x | psql -q && pgbench -n; wait", ("zcat", "psql", "pgbench", "wait")),
        ("nginx & curl a\nab -n 1", ("nginx", "curl", "ab")),
        ("sh -c 'tar c x | nc {server} 9' && sync", ("sh", "tar", "nc", "sync")),
        ('sh -c "tar c $x | nc h 9"; sync', ("sh", "sync")),
        ("LC_ALL=C tool >out 2>err </dev/null && other 2>&1 | tee log", ("tool", "other", "tee")),
        ("mkdir data &&\n  ssh-keygen -q -N '' -f key", ("mkdir", "ssh-keygen")),
        ("mkdir data && \\\n  split -b 8M x", ("mkdir", "split")),
        ("exec nginx -g 'daemon off; user root' -e \"a && b\"", ("nginx",)),
        ("test -e x; scp a b && test $(stat -c %s a) = 5", ("scp",)),
    ],
)
def test_the_commands_of_a_list(command: str, names: tuple[str, ...]) -> None:
    assert programs(command) == names


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("curl x || wget x; sync", ("sync",)),
        ("id -u sshd || useradd -r sshd", ()),
        ("command -v gzip && gzip x; sync", ("sync",)),
        ("mkdir data && for n in $(seq 20); do head -c 1 x; done; pigz x", ("mkdir",)),
        ("if which pigz; then pigz x; fi", ()),
        ("mkdir x; pack() { tar c x; }; pack", ("mkdir",)),
        ("make; . ./env; tool", ("make",)),
        ("make; PATH=$PWD:$PATH; tool", ("make",)),
        ("make; (cd x && tool)", ("make",)),
        ("case $1 in a) tool;; esac", ()),
        ("cat <<EOF\na; b\nEOF\n", ()),
        ("a `b; c`", ()),
        ("a # b; c", ()),
        ("$TOOL x; 'my tool' y; sync", ("sync",)),
        ("{{ id -u; tool; }}", ()),
        ("a 'unfinished; b", ()),
        ("", ()),
    ],
)
def test_what_is_not_plain_is_passed_over(command: str, names: tuple[str, ...]) -> None:
    assert programs(command) == names


@given(st.text(alphabet="ab ;|&<>()'\"\\\n$#{}=-", max_size=30))
def test_any_text_is_read(command: str) -> None:
    assert all(name in command for name in programs(command))
