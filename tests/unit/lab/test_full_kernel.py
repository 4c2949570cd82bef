"""What only the lab's full kernel has, each used for real, on its virtual clock.

Building that kernel takes minutes, and few use it: without it these tests are skipped.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.lab import boot, build_kernel
from emulator.lab.boot_options import BootOptions
from emulator.lab.lab_root import RootChoice

pytestmark = pytest.mark.skipif(
    not build_kernel.place(build_kernel.FULL).exists(),
    reason="the full kernel is not built: longhaul lab build --kernel-config full",
)
TOOLS = RootChoice(packages=("nftables", "wireguard-tools"))
BARE = RootChoice(kernel_config=build_kernel.FULL)

PATH = """set -e
ip netns add near; ip netns add far
ip link add near0 netns near type veth peer name far0 netns far
ip -n near addr add 192.0.2.1/24 dev near0; ip -n far addr add 192.0.2.2/24 dev far0
for end in near:near0 far:far0; do
    ip -n ${end%:*} link set lo up; ip -n ${end%:*} link set ${end#*:} up
    tc -n ${end%:*} qdisc add dev ${end#*:} root netem delay 40ms limit 100000
done
"""
"""Two namespaces with an RTT of 80 ms between them."""

WIREGUARD = """umask 077
wg genkey > near.key; wg genkey > far.key
for name in near far; do ip -n $name link add wg0 type wireguard; done
ip netns exec near wg set wg0 private-key near.key listen-port 5000 peer $(wg pubkey <far.key) \\
    allowed-ips 10.0.0.2/32 endpoint 192.0.2.2:5000 $KEEPALIVE
ip netns exec far wg set wg0 private-key far.key listen-port 5000 peer $(wg pubkey <near.key) allowed-ips 10.0.0.1/32
ip -n near addr add 10.0.0.1/24 dev wg0; ip -n far addr add 10.0.0.2/24 dev wg0
for name in near far; do ip -n $name link set wg0 up; done
ip netns exec near ping -q -c 1 10.0.0.2 >/dev/null
before=$(date +%s%N); sleep 3600; echo slept $(($(date +%s%N) - before))
ip netns exec near ping -q -c 1 10.0.0.2 >/dev/null
ip netns exec near ping -c 1 10.0.0.2 | grep -o 'time=.*'
ip netns exec near wg show wg0 transfer | cut -f 3
"""

NAT = """set -e
ip netns add in; ip netns add out
ip link add i type veth peer name e netns in; ip link add o type veth peer name e netns out
ip addr add 10.0.0.1/24 dev i; ip addr add 192.0.2.1/24 dev o; ip link set i up; ip link set o up
ip -n in addr add 10.0.0.2/24 dev e; ip -n in link set e up; ip -n in route add default via 10.0.0.1
ip -n out addr add 192.0.2.2/24 dev e; ip -n out link set e up
echo 1 > /proc/sys/net/ipv4/ip_forward
nft add table ip nat
nft 'add chain ip nat post { type nat hook postrouting priority 100; }'
nft add rule ip nat post oifname o counter masquerade
ip netns exec out python3 -c "
import socket
with socket.create_server(('', 80)) as server:
    asked, (address, _) = server.accept()
    asked.send(address.encode())
" &
sleep 1
ip netns exec in python3 -c "import socket; print(socket.create_connection(('192.0.2.2', 80)).recv(99).decode())"
nft list ruleset | grep -o 'packets [0-9]*'
"""

MPTCP = """
import socket, subprocess
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as server:
    server.bind(("127.0.0.1", 0))
    server.listen()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as client:
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        client.send(b"hello")
        print(accepted.recv(9).decode(), accepted.proto)
        accepted.close()
print(subprocess.run(["nstat", "-asz", "MPTcpExtMPCapableSYNRX"], capture_output=True, text=True).stdout.split()[2])
"""

FUSE = """
import ctypes, os
fuse = os.open("/dev/fuse", os.O_RDWR)
os.mkdir("/tmp/m")
options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
assert ctypes.CDLL(None).mount(b"x", b"/tmp/m", b"fuse", 0, options) == 0
print(int.from_bytes(os.read(fuse, 65536)[4:8], "little"))
"""


def said(choice: RootChoice, *argv: str, cwd: Path | None = None, **env: str) -> list[str]:
    done = boot.capture(argv, BootOptions(cwd, env, stall_cpu_s=30, timeout_s=120), choice)
    assert done.exit_code == 0, done.stderr.decode()
    return done.stdout.decode().split("\n")[:-1]


@pytest.mark.parametrize(("keepalive", "least", "most"), [("", 300, 2_000), ("persistent-keepalive 25", 5_000, 20_000)])
def test_an_hour_of_wireguard_passes_at_once(keepalive: str, least: int, most: int, tmp_path: Path) -> None:
    slept, rtt, sent = said(TOOLS, "sh", "-c", PATH + WIREGUARD, cwd=tmp_path, KEEPALIVE=keepalive)
    assert 0 <= int(slept.split()[1]) - 3600 * 10**9 < 10_000_000
    assert rtt == "time=80.0 ms"
    assert least < int(sent) < most, "a keepalive of 32 bytes each 25 s, and a handshake each two minutes"


def test_nf_tables_translate_addresses() -> None:
    address, counted = said(TOOLS, "sh", "-c", NAT)
    assert (address, counted) == ("192.0.2.1", "packets 1")


def test_multipath_tcp_carries_a_stream() -> None:
    assert said(BARE, "python3", "-c", MPTCP) == ["hello 262", "1"]


def test_a_file_system_in_user_space_is_asked() -> None:
    assert said(BARE, "python3", "-c", FUSE) == ["26"], "FUSE_INIT"
