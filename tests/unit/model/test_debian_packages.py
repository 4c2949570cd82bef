"""Names of Debian packages as users write them."""

from __future__ import annotations

import pytest

from emulator.model import debian_packages


def test_packages_are_sorted_and_each_is_there_once() -> None:
    assert debian_packages.parse(" rsync,nginx,rsync, libstdc++6") == ("libstdc++6", "nginx", "rsync")


@pytest.mark.parametrize("text", ["", "a b", "rsync,", "Rsync", "-o", "rsync=3.5", "../x", "r", "x\n"])
def test_what_is_no_name_of_a_package_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no name of a Debian package: write rsync,nginx"):
        debian_packages.parse(text + "\\" if text == "x\n" else text)
