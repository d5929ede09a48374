# SPDX-License-Identifier: MIT
"""The same over a real ssh: each machine a network namespace with its sshd.

Needs root, ip, nsenter, unshare and OpenSSH's server, which TBMPI_SSHD may
name. Its process sees a password file of its own, with the user that sshd
wants to exist.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import machines
import pytest
from launched import Launcher

CONFIG = """\
HostKey {folder}/hostkey
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PermitUserEnvironment no
PidFile none
"""

CLIENT = """\
Host alpha
  HostName {alpha}
Host beta
  HostName {beta}
Host *
  User root
  IdentityFile {folder}/key
  IdentityAgent none
  UserKnownHostsFile {folder}/known
"""

START = """\
cp /etc/passwd {folder}/passwd
grep -q ^sshd: /etc/passwd || echo sshd:x:101:65534::/run/sshd:/bin/false \
    >> {folder}/passwd
mount --bind {folder}/passwd /etc/passwd
mount -t tmpfs none /run && mkdir -m 755 /run/sshd
exec {sshd} -D -e -f {folder}/sshd_config
"""

HELLO = """
    from tbmpi import MPI
    comm = MPI.COMM_WORLD
    print(comm.rank, comm.allreduce(comm.rank), flush=True)
"""


def _find_sshd() -> str:
    given = os.environ.get("TBMPI_SSHD", "")
    return given or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") or ""


def _serve(folder: Path, space: str) -> subprocess.Popen[bytes]:
    text = START.format(folder=folder, sshd=_find_sshd())
    words = ["nsenter", f"--net=/run/netns/{space}", "unshare", "-m", "sh", "-ec", text]
    with (folder / f"{space}.log").open("wb") as log:
        return subprocess.Popen(words, stderr=log, stdout=log, stdin=subprocess.DEVNULL)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[machines.Network]:
    """Two machines with an sshd each; tmp_path has the client's configuration."""
    if not machines.can_make_networks() or not shutil.which("unshare"):
        pytest.skip("network namespaces need root, ip, nsenter and unshare")
    if not _find_sshd():
        pytest.skip("no OpenSSH server here (apt-get install openssh-server)")
    for name in ("key", "hostkey"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name]
        subprocess.run(words, check=True, timeout=20)
    (tmp_path / "sshd_config").write_text(CONFIG.format(folder=tmp_path))
    with machines.network() as it:
        client = CLIENT.format(folder=tmp_path, **it.addresses)
        (tmp_path / "client").write_text(client)
        servers = [_serve(tmp_path, it.space(name)) for name in it.addresses]
        try:
            yield it
        finally:
            for server in servers:
                server.terminate()
                server.wait(timeout=10)


@pytest.fixture
def ssh(launcher: Launcher, network: machines.Network, tmp_path: Path) -> list[str]:
    """Options of a tbmpirun that runs on alpha."""
    launcher.limit = 90.0
    path = tmp_path / "ssh"
    at = f"nsenter --net=/run/netns/{network.space('alpha')}"
    path.write_text(f'#!/bin/sh\nexec {at} ssh -F {tmp_path}/client "$@"\n')
    path.chmod(0o755)
    deadline = time.monotonic() + 10
    for name in network.addresses:
        words = [path, "-oStrictHostKeyChecking=no", name, "true"]
        while subprocess.run(words, capture_output=True, timeout=20).returncode:
            assert time.monotonic() < deadline, f"no sshd on {name}"
            time.sleep(0.1)
    return ["--ssh", str(path), "-H", "alpha,beta", "-n", "4"]


def test_over_ssh(launcher, ssh):
    """Addresses are those by which ssh came in; nobody else says any."""
    done = launcher.run(*ssh, *launcher.python(HELLO))
    assert (done.returncode, done.stderr) == (0, b"")
    lines = sorted(done.stdout.decode().splitlines())
    assert lines == [f"{rank} 6" for rank in range(4)]


def test_unknown_key(launcher, ssh, tmp_path):
    (tmp_path / "known").unlink()
    done = launcher.run(*ssh, "true")
    assert done.returncode == 1
    assert b"its key is not known here: run 'ssh alpha true'" in done.stderr


def test_no_key(launcher, ssh, tmp_path):
    (tmp_path / "key.pub").write_text("")
    done = launcher.run(*ssh, "true")
    assert done.returncode == 1
    assert b"run 'ssh-copy-id alpha'" in done.stderr


def test_killed_launcher(launcher, ssh):
    """Ranks carry the test's mark, for tbmpirun passes TBMPI_ variables on."""
    sleep = [sys.executable, "-c", "import time; print('up', flush=1); time.sleep(60)"]
    job = launcher.start(*ssh, *sleep)
    assert job.stdout is not None
    assert {job.stdout.readline() for _ in range(4)} == {b"up\n"}
    assert len(launcher.survivors()) >= 4
    job.kill()
    job.communicate(timeout=10)
    launcher.assert_nothing_left(within=10)


def test_the_way_to_a_machine_is_cut(launcher, network, ssh):
    wait = """
        from tbmpi import MPI
        comm = MPI.COMM_WORLD
        comm.barrier()
        print("ready", flush=True)
        comm.recv(source=(comm.rank + 1) % comm.size)
    """
    job = launcher.start(*ssh, *launcher.python(wait))
    assert job.stdout is not None
    assert {job.stdout.readline() for _ in range(4)} == {b"ready\n"}
    began = time.monotonic()
    network.cut()
    job.wait(timeout=25)
    assert time.monotonic() - began < 25
    assert job.returncode == 1
    # The ranks there end because their own agent hears nothing any more.
    launcher.assert_nothing_left(within=25)
    _, _, err = launcher.finish(job)
    # Whoever is first: ssh, whose connection is dead, or a rank on alpha.
    signs = ("beta, with ranks 2-3, is lost", "has not answered", "has ended")
    assert any(sign in err for sign in signs)
