# SPDX-License-Identifier: MIT
"""Jobs on several machines: what starts, what fails, and what ends with what.

The machines are this one, by an ssh that stays here; where namespaces can be
made, two with a network of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import machines
import pytest
from launched import Launcher, _environment, _pids

from tbmpi.launch import as_told, ssh

HOSTS = ("-H", "alpha,beta")
LIMIT = 90.0  # agents and ranks are Pythons, and the machine may be busy

SUM = """
    from tbmpi import MPI
    comm = MPI.COMM_WORLD
    total = comm.allreduce(comm.rank)
    back = comm.sendrecv(bytes(300000), (comm.rank + 1) % comm.size)
    print(comm.rank, comm.size, total, len(back), flush=True)
"""

WAIT = """
    from tbmpi import MPI
    comm = MPI.COMM_WORLD
    comm.barrier()
    print("ready", comm.rank, flush=True)
    comm.recv(source=(comm.rank + 1) % comm.size)
"""


@pytest.fixture
def cluster(launcher: Launcher, tmp_path: Path) -> Launcher:
    """A launcher that finds our ssh first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    machines.fake_ssh(folder)
    launcher.limit = LIMIT
    launcher.env["PATH"] = f"{folder}{os.pathsep}{launcher.env['PATH']}"
    return launcher


def agents(launcher: Launcher) -> list[int]:
    """The agents of this test's jobs."""
    found = []
    for pid in _pids():
        line = Path(f"/proc/{pid}/cmdline")
        text = line.read_bytes().decode(errors="replace") if line.exists() else ""
        if launcher.mark in _environment(pid) and "tbmpi.launch.agent" in text:
            found.append(pid)
    sessions = {os.getsid(pid): pid for pid in found}
    return sorted(sessions[s] for s in sessions if s in found)


def start_waiting(cluster: Launcher, *options: str):
    """A job of four ranks that wait for each other, once all do."""
    words = [*options, "-n", "4", *cluster.python(WAIT)]
    job = cluster.start(*HOSTS, *words)
    assert job.stdout is not None
    lines = sorted(job.stdout.readline() for _ in range(4))
    assert lines == [b"ready %d\n" % rank for rank in range(4)]
    return job


# ------------------------------------------------------------------- it runs


def test_two_machines(cluster):
    done = cluster.run(*HOSTS, "-n", "4", *cluster.python(SUM))
    assert (done.returncode, done.stderr) == (0, b"")
    lines = sorted(done.stdout.decode().splitlines())
    assert lines == [f"{rank} 4 6 300000" for rank in range(4)]


def test_one_other_machine(cluster):
    done = cluster.run("-H", "alpha", "-n", "2", *cluster.python(SUM))
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 2


def test_this_machine_and_another(cluster):
    done = cluster.run("-H", "localhost:1,beta:2", *cluster.python(SUM))
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 3


def test_host_file_and_environment(cluster, tmp_path):
    hosts = [{"ssh": "alpha", "ips": ["127.0.0.1"]}, {"ssh": "beta"}]
    text = json.dumps({"backend": "", "envs": ["FROM_FILE=1"], "hosts": hosts})
    (tmp_path / "hosts.json").write_text(text)
    show = "import os; print(os.environ['FROM_FILE'], os.environ['FROM_X'])"
    done = cluster.run(
        "--hostfile", "hosts.json", "--output-hostfile", "again.json",
        "-x", "FROM_X=2", "-n", "2", sys.executable, "-c", show,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"1 2\n1 2\n")
    again = json.loads((tmp_path / "again.json").read_text())
    assert [host["ssh"] for host in again["hosts"]] == ["alpha", "beta"]
    assert again["hosts"][0]["ips"] == ["127.0.0.1"]


def test_input_reaches_the_rank_that_reads_it(cluster):
    text = b"x" * 200000 + b"\n"
    count = [sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"]
    done = cluster.run(*HOSTS, "--stdin", "1", "-n", "2", *count, stdin=text)
    assert sorted(done.stdout.split()) == [b"0", b"200001"]
    done = cluster.run(*HOSTS, "--stdin", "all", "-n", "2", *count, stdin=text)
    assert sorted(done.stdout.split()) == [b"200001", b"200001"]


def test_output_is_tagged_and_whole(cluster):
    code = "for i in range(2000): print('x' * 60)"
    done = cluster.run(*HOSTS, "-l", "-n", "2", sys.executable, "-c", code)
    lines = done.stdout.splitlines()
    for rank in (b"[0] ", b"[1] "):
        assert lines.count(rank + b"x" * 60) == 2000


def test_output_that_nobody_reads_waits(cluster):
    size = 200 << 20
    code = f"import os\nfor _ in range({size >> 16}): os.write(1, bytes(1 << 16))"
    job = cluster.start(*HOSTS, "-n", "2", sys.executable, "-c", code)
    time.sleep(5)
    status = Path(f"/proc/{job.pid}/status")
    if status.exists():
        peak = next(x for x in status.read_text().splitlines() if "VmHWM" in x)
        assert int(peak.split()[1]) < 100 << 10
    assert job.stdout is not None
    got = 0
    while data := job.stdout.read(1 << 20):
        got += len(data)
    assert got == 2 * size
    assert cluster.finish(job)[0] == 0


def test_exit_code_of_a_rank(cluster):
    text = "import sys; from tbmpi import MPI; sys.exit(7 * (MPI.COMM_WORLD.rank == 1))"
    done = cluster.run(*HOSTS, "-n", "2", *cluster.python(text))
    assert done.returncode == 7
    assert b"rank 1 on beta ended with exit code 7" in done.stderr


# -------------------------------------------------------------- it ends right


def test_killed_rank(cluster):
    job = start_waiting(cluster)
    (victim,) = [
        pid
        for pid in cluster.survivors()
        if "\0PMI_RANK=2" in _environment(pid) and os.getpgid(pid) == pid
    ]
    began = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    code, _, err = cluster.finish(job)
    assert code == 128 + signal.SIGKILL
    assert "rank 2 on beta was killed by signal 9" in err
    assert "were in MPI_" in err  # what the others did, from half a second ago
    assert time.monotonic() - began < 5


def test_killed_agent(cluster):
    job = start_waiting(cluster)
    os.kill(agents(cluster)[1], signal.SIGKILL)
    job.wait(timeout=10)
    cluster.assert_nothing_left(within=5)
    code, _, err = cluster.finish(job)
    assert code == 1
    assert "is lost: the connection has ended; the job ends with it" in err


def test_killed_launcher(cluster):
    job = start_waiting(cluster)
    job.kill()
    job.communicate(timeout=10)
    cluster.assert_nothing_left(within=5)


def test_silent_agent(cluster):
    """One that is stopped says nothing; what it has started is its to end."""
    job = start_waiting(cluster)
    stopped = agents(cluster)[0]
    os.kill(stopped, signal.SIGSTOP)
    job.wait(timeout=40)
    with contextlib.suppress(ProcessLookupError):
        os.kill(stopped, signal.SIGCONT)
    cluster.assert_nothing_left(within=5)
    code, _, err = cluster.finish(job)
    assert code == 1
    assert "it has been silent for 15 s" in err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_all(cluster, signum):
    job = start_waiting(cluster)
    job.send_signal(signum)
    if signum == signal.SIGINT:  # a Python that waits in C heeds the second
        time.sleep(0.5)
        job.send_signal(signum)
    code, _, _ = cluster.finish(job)
    assert code == 128 + signum


def test_time_limit(cluster):
    job = start_waiting(cluster, "--timeout", "3")
    code, _, err = cluster.finish(job)
    assert code == 124
    assert "rank 3 on beta, process" in err
    assert "in MPI_" in err
    assert "the Python stacks of ranks 2-3" in err
    assert '[3]   File "' in err


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["-H", "a:1,b:1", "-n", "3", "true"], 2, "the hosts take 2 (a:1, b:1)"),
        (["-H", "a,-oX=y", "true"], 2, "'-oX=y' is neither a name nor"),
        ([*HOSTS, "-n", "2", "./none"], 127, "alpha: no such program: ./none"),
        ([*HOSTS, "--iface", "none9", "-n", "2", "true"], 1, "--iface none9"),
        ([*HOSTS, "--python", "/none", "-n", "2", "true"], 1, "no Python at /none"),
        ([*HOSTS, "--sim", "mesh:2", "-wdir", "/none", "true"], 2, "/none"),
        ([*HOSTS, "-wdir", "/none", "-n", "2", "true"], 2, "alpha: the working"),
        ([*HOSTS, "-n", "4000", "true"], 2, "on several machines are too many"),
    ],
)  # fmt: skip
def test_one_message(cluster, words, code, says):
    done = cluster.run(*words)
    assert says in done.stderr.decode()
    assert done.returncode == code
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        ("Host key verification failed.", 255, "its key is not known here"),
        ("me@beta: Permission denied (publickey).", 255, "ssh-copy-id beta"),
        ("ssh: connect to host beta port 22: Connection refused", 255, "Remote Login"),
        ("ssh: connect to host beta: Operation timed out", 255, "is it up"),
        ("/p/python: No module named tbmpi", 1, "its Python has no tbmpi"),
        ("sh: /p/python: not found", 127, "there is no Python at"),
        ("something else", 3, "cannot start on beta: something else"),
    ],
)
def test_ssh_fails(launcher, tmp_path, error, code, says):
    text = machines.FAILING.format(error=error, code=code)
    path = machines.fake_ssh(tmp_path, text)
    done = launcher.run("--ssh", path, "-H", "beta", "true")
    assert done.returncode == 1
    assert says in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_other_version(cluster, tmp_path):
    fake = tmp_path / "python"
    hello = {**as_told.greeting("9.9"), "tell": "hello"}
    fake.write_text(
        f"#!{sys.executable}\n"
        "import sys, os\n"
        "from tbmpi.launch import agent, wire\n"
        f"os.write(1, agent.MARK + wire.pack({hello!r}))\n"
        "sys.stdin.read()\n"
    )
    fake.chmod(0o755)
    done = cluster.run(*HOSTS, "--python", str(fake), "-n", "2", "true")
    assert done.returncode == 2
    assert b"has tbmpi 9.9 and this machine" in done.stderr


def test_homes_and_commands(monkeypatch):
    monkeypatch.setenv("HOME", "/Users/me")
    assert ssh.interpreter("/Users/me/v e/bin/python") == "\"$HOME\"/'v e/bin/python'"
    assert ssh.interpreter("/opt/python") == "/opt/python"
    assert as_told.at_home("/home/you/work", "/home/you") == "/Users/me/work"
    assert as_told.at_home("/scratch", "/home/you") == "/scratch"
    words = ssh.command("ssh -p 2222", "beta", "/opt/python")
    assert words[:3] == ["ssh", "-p", "2222"]
    assert words[-3:-1] == ["--", "beta"]


# ------------------------------------------------------------------ a network


@pytest.fixture
def network() -> Iterator[machines.Network]:
    """Two machines that only one cable joins."""
    if not machines.can_make_networks():
        pytest.skip("network namespaces need root, ip and nsenter")
    with machines.network() as it:
        yield it


@pytest.fixture
def spaced(launcher, network, tmp_path) -> Launcher:
    """A launcher whose ssh leads to the machines of that network."""
    path = machines.fake_ssh(tmp_path, machines.SPACED.format(prefix=network.prefix))
    hosts = [
        {"ssh": name, "ips": [address]} for name, address in network.addresses.items()
    ]
    (tmp_path / "hosts").write_text(json.dumps(hosts))
    launcher.limit = LIMIT
    launcher.options = ["--ssh", path, "--hostfile", "hosts"]
    return launcher


def test_over_a_network(spaced):
    done = spaced.run(*spaced.options, "-n", "4", *spaced.python(SUM))
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.splitlines()) == 4


def test_interface_by_name(spaced):
    words = [*spaced.options, "--iface", "cable", "-n", "2", *spaced.python(SUM)]
    done = spaced.run(*words)
    assert (done.returncode, done.stderr) == (0, b"")


def test_cut_cable(spaced, network):
    """The agents can still talk: it is the ranks that notice."""
    talk = """
        from tbmpi import MPI
        comm = MPI.COMM_WORLD
        comm.barrier()
        print("ready", flush=True)
        while True:
            comm.allreduce(1)
    """
    words = [*spaced.options, "-x", "TBMPI_TCP_TIMEOUT=2", "-n", "2"]
    job = spaced.start(*words, *spaced.python(talk))
    assert job.stdout is not None
    assert {job.stdout.readline(), job.stdout.readline()} == {b"ready\n"}
    network.cut()
    began = time.monotonic()
    code, _, err = spaced.finish(job)
    assert code != 0
    assert "has not answered for 2 s" in err or "the connection to its process" in err
    assert time.monotonic() - began < 15


def test_unreachable_network(spaced, network):
    network.cut()
    began = time.monotonic()
    done = spaced.run(*spaced.options, "-n", "2", *spaced.python(SUM))
    assert done.returncode == 1
    assert b"alpha and beta cannot connect: from alpha: " in done.stderr
    assert time.monotonic() - began < 30
