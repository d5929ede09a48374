# SPDX-License-Identifier: MIT
"""The whole command against libraries that are shell scripts."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tbmpi.bench import main

COMPILE = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\nexec cat "%s"\\n' "$(dirname "$0")/figures" > "$2"
chmod +x "$2"
"""
LAUNCH = """#!/bin/sh
shift 2
while [ "${1#-}" != "$1" ]; do shift 2; done
exec "$@"
"""


def figure(usec: float, size: int = 8, wrong: int = 0) -> str:
    return json.dumps(
        {
            "family": "allreduce",
            "bytes": size,
            "usec": {"q1": usec, "median": usec, "min": usec},
            "samples": 1,
            "turns": 1,
            "ops": 1,
            "streams": 1,
            "capped": False,
            "wrong": wrong,
            "raw": [usec],
        }
    )


def library(folder: Path, names: tuple[str, str], *lines: str) -> Path:
    """Make a library of two scripts whose programmes print the lines."""
    folder.mkdir()
    for name, text in zip(names, (COMPILE, LAUNCH), strict=True):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    head = json.dumps({"library": f"{folder.name} Version: 1.0\nmore"})
    end = json.dumps({"end": True})
    (folder / "figures").write_text("\n".join([head, *lines, end]) + "\n")
    return folder


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    names = ("tbmpicc", "tbmpirun")
    return library(tmp_path / "ours", names, figure(2.0), figure(9.0, 64))


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    names = ("mpicc", "mpiexec")
    return library(tmp_path / "peer", names, figure(4.0), figure(6.0, 64))


def run(*words: object) -> int:
    return main([str(word) for word in words])


def test_alone_a_table_is_printed(
    ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--ours", ours, "--runs", 1) == 0
    out = capsys.readouterr().out
    assert "allreduce" in out
    assert "9.00" in out


def test_a_comparison_is_judged_and_recorded(
    ours: Path,
    peer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "all.json"
    options = ("--ours", ours, "--vs", f"mpich={peer}", "--json", path)
    assert run(*options) == 0
    out = capsys.readouterr().out
    assert "peer 1.0" in out
    assert "misses" in out
    data = json.loads(path.read_text())
    assert data["rounds"] == 11
    assert len(data["runs"]) == 22
    assert data["placement"] == "no binding"
    [family] = data["verdict"]
    assert [row["ratio"] for row in family["figures"]] == [0.5, 1.5]
    assert [row["miss"] for row in family["figures"]] == [False, True]
    assert family["passes"] is False


def test_strict_turns_a_missed_rule_into_an_exit_code(ours: Path, peer: Path) -> None:
    options = ("--ours", ours, "--vs", f"mpich={peer}", "--runs", 1)
    assert run(*options) == 0
    assert run(*options, "--strict") == 1


def test_wrong_data_is_shown_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = library(tmp_path / "bad", ("tbmpicc", "tbmpirun"), figure(1.0, wrong=3))
    assert run("--ours", bad, "--runs", 1) == 1
    assert "wrong data in allreduce 8 B" in capsys.readouterr().out


def test_a_figure_left_out_is_told(
    tmp_path: Path, peer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = {"skipped": "allreduce", "bytes": 64, "why": "its time is used up"}
    slow = library(
        tmp_path / "slow",
        ("tbmpicc", "tbmpirun"),
        figure(1.0),
        json.dumps(why),
    )
    options = ("--ours", slow, "--vs", f"mpich={peer}", "--runs", 1)
    assert run(*options, "--strict") == 1
    assert "no allreduce at 64 B: its time" in capsys.readouterr().out


def test_the_picture_is_drawn(ours: Path, peer: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not here")
    path = tmp_path / "all.png"
    options = ("--ours", ours, "--vs", f"mpich={peer}", "--runs", 2)
    assert run(*options, "--png", path) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_remedy_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run("--png", "all.png") == 2
    assert "pip install 'tbmpi[plot]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--np", 0), "--np is 1 or more, not 0"),
        (("--runs", 0), "--runs is 1 or more, not 0"),
        (("--families", "latencey"), "no such family: 'latencey'"),
        (("--families", "latency", "--np", 1), "need --np 2 or more"),
        (("--sizes", "8X"), "not a message size"),
        (("--vs", "lam"), "no such peer: 'lam'"),
        (("--hpl", "--sizes", 8), "leave --families and --sizes"),
        (("--json", "/nowhere/all.json"), "no such folder: /nowhere"),
        (("--ours", "/nowhere"), "no tbmpicc and tbmpirun in /nowhere"),
        (("--ours", "none"), "nothing to run"),
    ],
)
def test_bad_input_is_one_message(
    words: tuple[object, ...],
    message: str,
    ours: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("--ours", ours, *words) == 2
    complaint = capsys.readouterr().err
    assert message in " ".join(complaint.split())


def test_a_compiler_that_fails_is_quoted(
    ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (ours / "tbmpicc").write_text("#!/bin/sh\necho no cc here >&2; exit 1\n")
    assert run("--ours", ours) == 2
    complaint = " ".join(capsys.readouterr().err.split())
    assert "cannot build the benchmark" in complaint
    assert "no cc here" in complaint


def test_when_no_run_succeeds_the_reason_is_given(
    ours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (ours / "tbmpirun").write_text("#!/bin/sh\necho no memory >&2; exit 5\n")
    assert run("--ours", ours) == 2
    complaint = " ".join(capsys.readouterr().err.split())
    assert "no run succeeded: tbmpi: exit code 5: no memory" in complaint


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_a_signal_leaves_nothing_behind(
    ours: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    mark = tmp_path / "started"
    launcher = f"#!/bin/sh\necho $$ > {mark}.part\n"
    launcher += f"mv {mark}.part {mark}\nsleep 60\n"
    (ours / "tbmpirun").write_text(launcher)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "tbmpi.bench", "--ours", str(ours)]
    process = subprocess.Popen(
        command,
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not mark.exists():
        assert time.monotonic() < deadline, "no run was started"
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(timeout=30) == code
    assert not list(scratch.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_nothing_is_left_in_the_temporary_folder(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    assert run("--ours", ours, "--runs", 1) == 0
    assert not list(scratch.iterdir())
