# SPDX-License-Identifier: MIT
"""Programs nobody here wrote, on two virtual Macs.

They are linked with rdma-core's libibverbs; the fabric's library stands in
front of it. Packages come from Debian by apt-get, into a private folder.
"""

from __future__ import annotations

import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "vm"))

import packages  # noqa: E402

PACKAGES = ("ibverbs-utils", "perftest", "libibverbs-dev")
PERFTEST = ("-c", "UC", "-x", "1", "-I", "0", "-Q", "1", "-F")
PINGPONG = ("-g", "1", "-r", "100", "-c")
LIMIT = 60.0

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="programs linked with libibverbs are Linux's"
)


@pytest.fixture(scope="session")
def debian() -> Path:
    """Where the packages are unpacked."""
    try:
        return packages.unpacked("verbs-programs", PACKAGES, "usr/bin/ib_send_lat")
    except packages.Unavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def macs(fabric, debian):
    """The two Macs, with those programs on them."""
    return Macs(fabric, debian)


class Macs:
    """Runs a program on one Mac, or one on each."""

    def __init__(self, fabric, root: Path) -> None:
        self.fabric = fabric
        self.root = root
        self.env = packages.environment(root)

    def program(self, name: str) -> str:
        """The path of a program."""
        found = packages.find(self.root.parent, f"usr/bin/{name}")
        assert found, name
        return str(found)

    def command(self, host: int, name: str, *words: str) -> list[str]:
        """Its command line on a Mac."""
        return self.fabric.command("run", str(host), self.program(name), *words)

    def run(self, host: int, name: str, *words: str) -> subprocess.CompletedProcess:
        """Runs a program on a Mac."""
        return subprocess.run(
            self.command(host, name, *words),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )

    def pair(self, name: str, *words: str, fails: bool = False) -> tuple[str, str]:
        """Runs a server on Mac 0 and its client on Mac 1; what both print.

        Both must succeed, or the client must not, and nothing may be left on
        the fabric.
        """
        port = free_port()
        words = (*words, "-p", str(port))
        server = subprocess.Popen(
            self.command(0, name, "-d", "rdma_en2", *words),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            wait_for_listener(server, port)
            client = self.run(1, name, "-d", "rdma_en3", *words, "127.0.0.1")
            if fails:
                server.kill()  # it may wait for a client that has gone
            said, _ = server.communicate(timeout=LIMIT)
        finally:
            server.kill()
            server.wait()
        everything = client.stdout + client.stderr
        assert bool(client.returncode) == fails, everything + said
        assert fails or not server.returncode, said
        assert not self.fabric.call("check").stdout
        return said, everything


def free_port() -> int:
    """A TCP port of the loopback interface that nobody uses."""
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def wait_for_listener(server: subprocess.Popen, port: int) -> None:
    """Returns once somebody listens; looked up, since a connection would count."""
    deadline = time.monotonic() + LIMIT
    pattern = re.compile(rf":{port:04X} [0-9A-F:]+ 0A ", re.MULTILINE)
    while time.monotonic() < deadline:
        tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6")]
        if any(t.exists() and pattern.search(t.read_text()) for t in tables):
            return
        assert server.poll() is None, server.stdout.read()
        time.sleep(0.02)
    raise AssertionError("the server does not listen")


def sends(fabric) -> list[int]:
    """Messages in each direction of the cable."""
    return [device["sent"]["sends"] for device in fabric.show()["devices"]]


def test_ibv_devices_lists_the_macs_own(macs):
    assert "rdma_en2" in macs.run(0, "ibv_devices").stdout
    said = macs.run(1, "ibv_devices").stdout
    assert "rdma_en3" in said and "rdma_en2" not in said


def test_ibv_devinfo_shows_port_and_gids(macs):
    said = macs.run(0, "ibv_devinfo", "-v").stdout
    assert re.search(r"state:\s+PORT_ACTIVE", said)
    assert re.search(r"active_mtu:\s+4096", said)
    assert re.search(r"max_sge:\s+1\n", said)
    assert re.search(r"GID\[\s+1\]:\s+::ffff:169.254.1.1", said)
    assert "(100)" in said  # the transport that only Apple has
    macs.fabric.fault("pull", "0")
    macs.fabric.fault("set", "present", "ethernet")
    said = macs.run(0, "ibv_devinfo").stdout
    assert re.search(r"state:\s+PORT_DOWN", said)
    assert re.search(r"link_layer:\s+Ethernet", said)


def test_ibv_uc_pingpong_checks_its_data(macs):
    # It posts receives in INIT, into the buffer that it sends from.
    macs.fabric.fault("set", "recv_before_rts", "accept")
    macs.fabric.fault("set", "scribble", "off")
    said, _ = macs.pair(
        "ibv_uc_pingpong", *["-g", "1", "-s", "40960", "-n", "200", "-r", "100", "-c"]
    )
    assert "200 iters" in said
    assert "invalid data" not in said
    assert sends(macs.fabric) == [200, 200]


def test_ibv_uc_pingpong_sees_corruption(macs):
    macs.fabric.fault("set", "recv_before_rts", "accept")
    macs.fabric.fault("set", "scribble", "off")
    # Its check looks at one byte a page: with messages of a byte, at all.
    macs.fabric.fault("corrupt", "100%")
    said, _ = macs.pair(
        "ibv_uc_pingpong", *["-g", "1", "-s", "1", "-n", "101", "-r", "50", "-c"]
    )
    assert "invalid data" in said


def test_ib_send_lat_measures_the_wire(macs):
    macs.fabric.fault("set", "present", "ethernet")
    macs.fabric.fault("set", "latency", "50us")
    _, said = macs.pair("ib_send_lat", *PERFTEST, "-s", "64", "-n", "200")
    row = re.search(r"^ 64 +200 +([\d.]+)", said, re.MULTILINE)
    assert row, said
    assert float(row[1]) >= 50


def test_ib_send_bw_is_no_faster_than_the_wire(macs):
    macs.fabric.fault("set", "present", "ethernet")
    macs.fabric.fault("set", "rate", "0.2")
    # Its server only receives, and stays in RTR.
    macs.fabric.fault("set", "recv_before_rts", "accept")
    words = ("-s", "65536", "-n", "400", "-t", "16", "-r", "32")
    _, said = macs.pair("ib_send_bw", *PERFTEST, *words)
    row = re.search(r"^ 65536 +400 +[\d.]+ +([\d.]+)", said, re.MULTILINE)
    assert row, said
    # In MiB/s; its first messages complete before they are on the wire.
    assert float(row[1]) < 0.2e9 / 2**20 * 1.1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("ibv_rc_pingpong", "Couldn't create QP"),
        ("ibv_ud_pingpong", "Couldn't create QP"),
        ("ibv_srq_pingpong", "Couldn't create SRQ"),
    ],
)
def test_what_apple_has_not_is_refused(macs, name, says):
    done = macs.run(0, name, "-g", "1")
    assert done.returncode
    assert says in done.stderr
    assert not macs.fabric.call("check").stdout


@pytest.mark.parametrize(
    ("name", "connection", "says"),
    [
        ("ib_send_lat", "RC", "Unable to create QP"),
        ("ib_write_bw", "UC", "Couldn't post send"),
    ],
)
def test_perftest_is_refused_what_apple_has_not(macs, name, connection, says):
    macs.fabric.fault("set", "present", "ethernet")
    words = ("-c", connection, *PERFTEST[2:], "-n", "5")
    _, said = macs.pair(name, *words, fails=True)
    assert says in said


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler here")
def test_a_program_with_rdma_cores_header_meets_the_rules(macs, tmp_path):
    triplet = f"{platform.machine()}-linux-gnu"
    program = tmp_path / "rules"
    subprocess.run(
        ["cc", f"-I{macs.root}/usr/include", str(HERE / "rules.c"), "-o", str(program),
         f"-L{macs.root}/usr/lib/{triplet}", "-libverbs",
         f"-Wl,-rpath-link,{macs.root}/usr/lib/{triplet}"],
        check=True,
        timeout=LIMIT,
    )  # fmt: skip
    done = subprocess.run(
        macs.fabric.command("run", "0", str(program)),
        env=macs.env,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert not done.returncode, done.stderr
    assert done.stdout.split("\n")[:-1] == [
        "port 4",
        "domain taken 0",
        "channel refused 102",
        "RC refused 102",
        "UD refused 102",
        "two-SGEs refused 22",
        "inline refused 22",
        "page taken 0",
        "half-page refused 22",
        "UC taken 0",
        "early-send refused 22",
        "send taken 0",
        "send-two refused 22",
        "write refused 102",
        "read refused 102",
        "atomic refused 102",
    ]
