# SPDX-License-Identifier: MIT
"""--sim, the launcher's part: what each process is given, and who ends when.

Routers and fabric are stand-ins here, so that every way of ending can be had;
tests/python/sim has the real ones.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tbmpi._gen import segment as segment_layout
from tbmpi.launch import control, options, sim
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.plan import make_plan

SEGMENT = segment_layout.SEGMENT_PER_RANK >> 20  # MiB
HERE = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C"}

STAND_IN = """
    import os
    from pathlib import Path
    from tbmpi import _paths
    from tbmpi.launch import cli
    _paths.router = lambda: Path({router!r})
    _paths.fabric_command = lambda: Path({fabric!r})
    _paths.fabric_library = lambda: Path(os.__file__)
    sys.exit(cli.main(sys.argv[1:]))
"""

# Notes itself in a pulled byte a cable, as the real one does.
FABRIC = """
    import os, sys
    verb, *words = sys.argv[1:]
    if verb == "create":
        text = sys.stdin.read()
        with open(words[0], "wb") as file:
            file.truncate(1 << 20)
        with open(words[0] + ".text", "w") as file:
            file.write(text)
    elif verb == "fault" and words[1] in ("pull", "plug"):
        with open(words[0], "r+b") as file:
            file.seek(4096 + int(words[2]))
            file.write(bytes([words[1] == "pull"]))
    elif verb == "fault":
        sys.exit("tbmpi-fabric: no switch " + words[2])
    elif verb == "show":
        print("{}")
"""

# Greets its neighbours, prints what it hears, and ends as {how} says.
ROUTER = """
    import contextlib, os, select, signal, socket, sys, time
    how = os.environ.get("HOW", "")
    name = os.environ["TBMPI_HOST_NAME"]
    def farewell(*_):
        # Other processes of the session, but the guard and routers.
        sleeps = os.popen("ps -o comm= -s %d" % os.getsid(0)).read().split()
        if how == "farewell":
            say("a rank is left" if "sleep" in sleeps else "no rank is left")
        os._exit(3 * (how == "messy"))
    def say(what):
        print(f"[router of {name}] {what}", flush=True)
    text = os.fdopen(int(os.environ["TBMPI_PLAN_FD"])).read()
    lines = [line.split() for line in text.splitlines()]
    assert os.fstat(int(os.environ["TBMPI_POOL_FD"])).st_size == 64 << 20
    ends = dict((fd, " ".join((kind, *who))) for kind, *who, fd in lines
                if kind in ("wire", "mgmt", "agent"))
    socks = dict((int(fd), who) for fd, who in ends.items())
    if how == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, farewell)
    if how == "early " + name:
        time.sleep(0.5)
        say("it was too early")
        sys.exit(5)
    for fd, who in socks.items():
        if who != "agent":
            with contextlib.suppress(BrokenPipeError):
                os.write(fd, f"{name} by {who};".encode())
    while True:
        for fd in select.select(list(socks), [], [])[0]:
            try:
                data = os.read(fd, 1000).decode()
            except ConnectionResetError:
                data = ""
            if how == "talk":
                say(f"{socks[fd]} says {data}")
            if not data:
                del socks[fd]
"""


class Emulation:
    """Starts jobs on emulated Macs with stand-ins."""

    def __init__(self, launcher) -> None:
        self.launcher = launcher
        python = f"#!{sys.executable}\n"
        files = {}
        for name, text in {"router": ROUTER, "fabric": FABRIC}.items():
            path = Path(launcher.script(f"{name}.py", text))
            path.write_text(python + path.read_text())
            path.chmod(0o755)
            files[name] = str(path)
        script = launcher.python(STAND_IN.format(**files), "emulated.py")
        launcher.command = lambda *words: [*script, *words]

    def run(self, *words: str, how: str = ""):
        """A job to its end; exit code, output, errors."""
        self.launcher.env["HOW"] = how
        done = self.launcher.run(*words)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def start(self, *words: str, how: str = "") -> subprocess.Popen[bytes]:
        """A job whose Macs all run."""
        self.launcher.env["HOW"] = how
        job = self.launcher.start(*words)
        self.launcher.wait_for(lambda: job.pid in control.running())
        return job

    def ask(self, job: subprocess.Popen[bytes], **request: str):
        return control.ask(control.running()[job.pid], request)


@pytest.fixture
def emulation(launcher):
    return Emulation(launcher)


def test_what_a_rank_is_given(emulation):
    rank = emulation.launcher.python(
        """
        import os
        from os import environ as env, fstat
        for name in ("TBMPI_FABRIC", "TBMPI_LIBRDMA"):
            assert os.path.exists(env[name])
        assert fstat(int(env["TBMPI_POOL_FD"])).st_size == 64 << 20
        place = env["MPI_LOCALRANKID"] + "/" + env["MPI_LOCALNRANKS"]
        size = fstat(int(env["TBMPI_SHM_FD"])).st_size
        print(env["TBMPI_RANK"], env["TBMPI_HOST_NAME"], place,
              env["TBMPI_FABRIC_HOST"], size >> 20)
        """
    )
    code, out, err = emulation.run("--sim", "line:2", "-n", "3", "-N", "2", *rank)
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        f"0 mac0 0/2 0 {2 * SEGMENT}",
        f"1 mac0 1/2 0 {2 * SEGMENT}",
        f"2 mac1 0/1 1 {SEGMENT}",
    ]


def test_the_plan_of_a_rank(emulation):
    words = ("--sim", "line:3", "-n", "5", "--output", "dir=out")
    code, _, _ = emulation.run(*words, "sh", "-c", "cat /dev/fd/$TBMPI_PLAN_FD")
    assert code == 0
    files = sorted(emulation.launcher.folder.glob("out/rank.*/stdout"))
    plans = [path.read_text() for path in files]
    assert len(plans) == 5
    lines = plans[0].splitlines()
    job = lines.pop(1)
    assert len(job.split()[1]) == 32
    assert lines == [
        "tbmpi-plan 1",
        "size 5",
        "nodes 3",
        "self 0",
        "owner router",
        "crowd 8",
        "node 0 mac0 0 1",
        "node 1 mac1 2 3",
        "node 2 mac2 4",
        "cable 0 0 rdma_en2 ::ffff:169.254.1.1 1 rdma_en2 ::ffff:169.254.1.2",
        "cable 1 1 rdma_en3 ::ffff:169.254.2.1 2 rdma_en2 ::ffff:169.254.2.2",
    ]
    selves = [line for plan in plans for line in plan.splitlines() if "self" in line]
    assert selves == ["self 0", "self 0", "self 1", "self 1", "self 2"]


def test_the_plan_of_a_rank_that_owns_the_verbs(emulation):
    show = "cat /dev/fd/$TBMPI_PLAN_FD; ls -l /dev/fd/; echo $TBMPI_POOL_FD"
    words = ("-q", "--sim", "mesh:2x2", "--router", "never", "--output", "dir=out")
    code, _, err = emulation.run(*words, "sh", "-c", show)
    assert (code, err) == (0, "")
    text = (emulation.launcher.folder / "out/rank.1/stdout").read_text()
    assert text.endswith("\n\n")
    lines = text.splitlines()
    assert "owner rank" in lines
    ends = [line.split() for line in lines if line.split()[:1] in (["wire"], ["mgmt"])]
    assert [end[:2] for end in ends] == [["wire", "0"], ["wire", "1"], ["mgmt", "0"]]
    for *_, fd in ends:
        assert any(f" {fd} -> socket:" in line for line in lines)
    (agent,) = (line.split()[1] for line in lines if line.startswith("agent "))
    assert any(f" {agent} -> pipe:" in line for line in lines)


def test_routers_are_joined_along_cables_and_beside_them(emulation):
    job = emulation.start("--sim", "line:3", "sleep", "0.7", how="talk")
    code, _, err = emulation.launcher.finish(job)
    assert code == 0
    heard = sorted(line for line in err.splitlines() if not line.endswith("says "))
    assert heard == [
        "[router of mac0] mgmt 1 says mac1 by mgmt 0;",
        "[router of mac0] mgmt 2 says mac2 by mgmt 0;",
        "[router of mac0] wire 0 says mac1 by wire 0;",
        "[router of mac1] mgmt 0 says mac0 by mgmt 1;",
        "[router of mac1] mgmt 2 says mac2 by mgmt 1;",
        "[router of mac1] wire 0 says mac0 by wire 0;",
        "[router of mac1] wire 1 says mac2 by wire 1;",
        "[router of mac2] mgmt 0 says mac0 by mgmt 2;",
        "[router of mac2] mgmt 1 says mac1 by mgmt 2;",
        "[router of mac2] wire 1 says mac1 by wire 1;",
    ]


def test_a_pulled_cable_is_silent(emulation):
    words = ("--sim", "line:2", "--fault", "pull 0", "--fault", "at 600ms plug 0")
    job = emulation.start(*words, "sleep", "1.2", how="talk")
    assert emulation.ask(job, do="show")["cables"][0]["state"] == "pulled"
    time.sleep(0.8)
    assert emulation.ask(job, do="show")["cables"][0]["state"] == "plugged in"
    code, _, err = emulation.launcher.finish(job)
    said = [line for line in err.splitlines() if " by " in line]
    assert code == 0
    assert {line.split("] ")[1][:4] for line in said[:2]} == {"mgmt"}
    assert {line.split("] ")[1][:4] for line in said[2:]} == {"wire"}


def test_a_router_that_ends_takes_the_job_with_it(emulation):
    code, _, err = emulation.run("--sim", "mesh:3", "sleep", "20", how="early mac1")
    assert code == 5
    assert err.splitlines() == [
        "[router of mac1] it was too early",
        "tbmpirun: router of mac1 ended with exit code 5; the job ends with it",
    ]


def test_a_router_that_is_killed_takes_the_job_with_it(emulation):
    start = time.monotonic()
    words = ("--sim", "mesh:3", "--fault", "at 800ms kill router mac2")
    code, _, err = emulation.run(*words, "sleep", "20")
    assert code == 137
    assert err.startswith("tbmpirun: router of mac2 was killed by signal 9 (SIGKILL")
    assert err.count("\n") == 1
    assert time.monotonic() - start < 5


def test_a_stubborn_router_is_made_to_end(emulation):
    start = time.monotonic()
    code, _, err = emulation.run("--sim", "mesh:2", "sleep", "1", how="stubborn")
    assert code == 0
    assert err.count("was killed by signal 9") == 2
    assert "router of mac1 was killed by signal 9" in err
    assert time.monotonic() - start < 6


def test_a_router_that_does_not_end_in_order_is_noted(emulation):
    code, _, err = emulation.run("--sim", "mesh:2", "sleep", "0.5", how="messy")
    assert code == 0
    line = "router of mac0 ended with exit code 3 when it was told to end"
    assert line in err


def test_a_failed_rank_ends_before_its_router(emulation):
    script = "trap 'sleep 0.5; exit' TERM; [ $TBMPI_RANK = 0 ] && sleep 1.2 && exit 4;"
    script += "sleep 20 & wait"
    words = ("--sim", "mesh:2", "sh", "-c", script)
    code, _, err = emulation.run(*words, how="farewell")
    assert code == 4
    assert sorted(err.splitlines()) == [
        "[router of mac0] no rank is left",
        "[router of mac1] no rank is left",
        "tbmpirun: rank 0 on mac0 ended with exit code 4",
    ]


def test_killing_a_rank_by_a_fault(emulation):
    words = ("--sim", "ring:3", "-n", "6", "--fault", "at 200ms kill rank 5")
    code, _, err = emulation.run(*words, "sleep", "20")
    assert code == 137
    assert err.startswith("tbmpirun: rank 5 on mac2 was killed by signal 9")
    assert err.count("\n") == 1


@pytest.mark.parametrize("delay", [0.0, 0.2, 0.8])
def test_killing_the_launcher(emulation, delay):
    job = emulation.launcher.start("--sim", "mesh:3", "sleep", "20")
    time.sleep(delay)
    job.kill()
    job.communicate(timeout=20)
    emulation.launcher.assert_nothing_left(within=3.0)


def test_killing_the_guard(emulation):
    job = emulation.start("--sim", "mesh:2", "sleep", "20")
    (guard,) = emulation.launcher.guards(job)
    os.kill(guard, signal.SIGKILL)
    code, _, err = emulation.launcher.finish(job)
    assert code == 1
    assert "the guard of this job" in err


def states(emulation) -> list[str]:
    listing = subprocess.run(["ps", "-axo", "pid=,stat="], capture_output=True)
    mine = set(emulation.launcher.survivors())
    rows = [line.split() for line in listing.stdout.decode().splitlines()]
    return [stat[0] for pid, stat in rows if int(pid) in mine]


def test_stopping_a_mac_and_ending_it(emulation):
    job = emulation.start("--sim", "mesh:2", "sleep", "20")
    emulation.ask(job, do="fault", fault="stop mac1")
    emulation.launcher.wait_for(lambda: "T" in states(emulation))
    emulation.ask(job, do="fault", fault="continue mac1")
    emulation.launcher.wait_for(lambda: "T" not in states(emulation))
    emulation.ask(job, do="fault", fault="stop mac0")
    job.send_signal(signal.SIGTERM)
    assert emulation.launcher.finish(job)[0] == 143


def test_ctrl_z_stops_routers_too(emulation):
    job = emulation.start("--sim", "mesh:2", "sleep", "20")
    job.send_signal(signal.SIGTSTP)
    # All but the guard.
    emulation.launcher.wait_for(lambda: states(emulation).count("T") == 5)
    job.send_signal(signal.SIGCONT)
    emulation.launcher.wait_for(lambda: "T" not in states(emulation))
    job.send_signal(signal.SIGTERM)
    assert emulation.launcher.finish(job)[0] == 143


def test_asking_a_job(emulation, capsys):
    job = emulation.start("--sim", "star:3", "-n", "6", "sleep", "20")
    facts = emulation.ask(job, do="show")
    assert (facts["job"], facts["topology"], facts["ranks"]) == (job.pid, "star:3", 6)
    assert [node["ranks"] for node in facts["nodes"]] == [[0, 1], [2, 3], [4, 5]]
    assert all(node["router"] for node in facts["nodes"])
    assert facts["nodes"][0]["pool"]["state"] == "starting"
    for fault, says in {
        "pull 9": "the cables are 0 to 1",
        "kill rank 6": "ranks 0 to 5",
        "set colour red": "the fabric refuses: no switch colour",
    }.items():
        with pytest.raises(LaunchError, match=says):
            emulation.ask(job, do="fault", fault=fault)
    with pytest.raises(LaunchError, match="no such request"):
        emulation.ask(job, do="dance")
    job.send_signal(signal.SIGTERM)
    assert emulation.launcher.finish(job)[0] == 143
    assert job.pid not in control.running()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--sim mesh:2 --fault 'at 1s set colour red' true", "no switch colour"),
        ("--sim mesh:2 -x TBMPI_POOL=1k true", "a pool has at least 4m"),
        ("--sim mesh:2 -x TBMPI_POOL=much true", "takes a size in bytes such as 64m"),
    ],
)
def test_errors_before_anything_runs(emulation, words, says):
    code, _, err = emulation.run(*shlex.split(words))
    assert code == 2
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--fault pull true", "--fault needs --sim"),
        ("--router never true", "--router needs --sim"),
        ("--router sometimes --sim mesh:2 true", "--router takes auto or never"),
        ("--sim mesh:2 -n 5 -N 2 true", "5 ranks do not fit on 2 machines"),
        ("--sim mesh:2 --router never -n 4 true", "needs one rank on each Mac"),
        ("--sim mesh:3 --router never -n 2 true", "but mac2 has no rank"),
        ("--sim ring:4 --router never true", "none joins mac0 and mac2"),
    ],
)
def test_plans_that_cannot_be(words, says):
    with pytest.raises(LaunchError) as caught:
        make_plan(options.parse(words.split()), HERE)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("--sim mesh:4 true", 4),
        ("--sim mesh:4 --ranks-per-node 2 true", 8),
        ("--sim mesh:4 -n 2 true", 2),
        ("--sim mesh:4 -n 2 true : -n 3 false", 5),
    ],
)
def test_how_many_ranks(words, size):
    assert make_plan(options.parse(words.split()), HERE).size == size


@pytest.mark.parametrize(
    ("text", "size"), [("64m", 64 << 20), ("16384k", 16 << 20), ("8388608", 8 << 20)]
)
def test_the_size_of_a_pool(text, size):
    assert sim.pool_size({"TBMPI_POOL": text}) == size


def test_a_folder_of_a_dead_launcher_is_removed():
    dead = subprocess.Popen(["true"])
    dead.wait()
    folder = control.make_folder(0)
    old = folder.with_name(f"tbmpi-sim-{dead.pid}-abcdefgh")
    old.mkdir()
    (old / "fabric").write_text("")
    control.remove_folder(folder)
    control.remove_folder(control.make_folder(0))
    assert not old.exists()
    assert not folder.exists()


def test_a_folder_for_which_a_socket_has_room(monkeypatch, tmp_path):
    monkeypatch.setattr(control, "MEMORY", tmp_path / "none")
    short = Path(tempfile.mkdtemp(prefix="s-", dir="/tmp"))
    long = tmp_path / ("long" * 30)
    long.mkdir()
    for folder, place in ((short, short), (long, Path("/tmp"))):
        monkeypatch.setattr(control.tempfile, "tempdir", str(folder))
        folder = control.make_folder(0)
        assert folder.parent == place
        assert len(str(folder / control.SOCKET)) < 104
        assert folder.stat().st_mode & 0o777 == 0o700
        control.remove_folder(folder)
    short.rmdir()


def test_a_folder_where_memory_has_room(monkeypatch, tmp_path):
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setattr(control, "MEMORY", memory)
    for room, place in ((1, memory), (1 << 60, Path(control.tempfile.gettempdir()))):
        folder = control.make_folder(room)
        assert folder.parent == place
        control.remove_folder(folder)
