# SPDX-License-Identifier: MIT
"""tbmpi-fabric: making, showing and disturbing a fabric."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tbmpi import _paths

DOCS = Path(__file__).resolve().parents[3] / "docs/fabric.md"

# What is wrong, and what the message must say.
WRONG = {
    "host 0 a\nhost 0 b\n": "line 2: host 0 stands here twice",
    "host 99 a\n": "line 1: a host's number is 0 to 63",
    "host 0 a/b\n": "line 1: 'a/b' is no name",
    "host 0 a\n\ncable 0 0 x - 1 x -\n": "line 3: there is no host 1",
    "host 0 a\ncable 0 0 x - 0 y -\n": "line 2: cable 0 has both ends on host 0",
    "host 0 a\nhost 1 b\ncable 1 0 x - 1 x -\n": "line 3: cables are numbered",
    "host 0 a\nhost 1 b\ncable 0 0 x 1.2.3 1 x -\n": "line 3: '1.2.3' is neither",
    "host 0 a\nset speed 3\n": "line 2: there is no switch 'speed'",
    "set loss 200%\n": "line 1: loss takes a share",
    "set latency 5\n": "line 1: latency takes a time",
    "set credit perhaps\n": "line 1: credit is one of hold|drop, not 'perhaps'",
    "set loss 1% 0\n": "line 1: there is no cable '0'",
    "hosts 0 a\n": "line 1: a line is 'host NUMBER NAME'",
    "host 0 a\n": "the description has no cable",
    "# nothing\n": "the description has no cable",
    "host 0 " + "a" * 600 + "\n": "line 1: the line is longer",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_description_names_its_line(unmade, text):
    done = unmade.call("create", text=text)
    assert done.returncode == 1
    assert WRONG[text] in done.stderr
    assert done.stderr.count("\n") == 1
    assert not unmade.path.exists()


def test_a_fabric_is_not_made_over_another_file(fabric):
    before = fabric.path.stat()
    done = fabric.call("create", text="host 0 a\nhost 1 b\ncable 0 0 x - 1 x -\n")
    assert done.returncode == 1 and "File exists" in done.stderr
    assert fabric.path.stat().st_mtime == before.st_mtime


def test_the_file_is_ours_alone_and_takes_little_room(fabric):
    status = fabric.path.stat()
    assert status.st_mode & 0o777 == 0o600
    assert status.st_blocks * 512 < 2 << 20


def test_what_is_no_fabric_is_refused(unmade):
    unmade.path.write_text("hello")
    for verb in ("show", "check"):
        done = unmade.call(verb)
        assert done.returncode == 1 and "is not a fabric" in done.stderr
    unmade.path.write_bytes(bytes(16 << 20))
    assert "is not a fabric" in unmade.call("show").stderr
    unmade.path.unlink()
    assert "No such file" in unmade.call("show").stderr


def test_show_lists_cables_devices_and_switches(fabric):
    shown = fabric.show()
    assert shown["hosts"] == ["mac0", "mac1"]
    assert shown["cables"] == [{"pulled": False, "devices": [0, 1], "wire": {}}]
    assert [device["name"] for device in shown["devices"]] == ["rdma_en2", "rdma_en3"]
    assert shown["devices"][1]["address"] == "169.254.1.2"
    assert shown["switches"]["latency"] == "5us"
    assert shown["switches"]["rate"] == "8.9"
    text = fabric.call("show").stdout
    assert "cable 0 plugged" in text and "host 1 rdma_en3 169.254.1.2" in text


def pulled(path):
    """What a launcher reads, to silence a socket beside the cable."""
    with path.open("rb") as file:
        file.seek(4096)
        return file.read(1)


def test_faults_change_what_is_shown(fabric):
    fabric.fault("pull", "0")
    assert fabric.show()["cables"][0]["pulled"]
    assert pulled(fabric.path) == b"\1"
    fabric.fault("plug", "0")
    assert not fabric.show()["cables"][0]["pulled"]
    assert pulled(fabric.path) == b"\0"
    fabric.fault("set", "latency", "1.5ms")
    fabric.fault("drop", "0.05%")
    fabric.fault("address", "mac1", "rdma_en3", "none")
    shown = fabric.show()
    assert shown["switches"]["latency"] == "1500us"
    assert shown["switches"]["loss"] == "0.05%"
    assert shown["devices"][1]["address"] == ""
    assert "latency 1500us" in fabric.call("show").stdout


def test_a_fault_on_one_cable_is_shown_there(fabric):
    fabric.fault("set", "latency", "9us", "0")
    fabric.fault("corrupt", "1%", "0")
    assert "cable 0 plugged, latency 9us, corrupt 1%\n" in fabric.call("show").stdout
    assert fabric.show()["cables"][0]["wire"] == {"latency": "9us", "corrupt": "1%"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("melt",), "'melt' is no fault; there are"),
        (("pull", "7"), "there is no cable '7'"),
        (("pull",), "wrong number of words"),
        (("set", "qp_max", "99"), "qp_max is at most 16"),
        (("stop", "mac9"), "there is no host 'mac9'"),
    ],
)
def test_wrong_faults_say_what_is_wrong(fabric, words, says):
    done = fabric.call("fault", *words)
    assert done.returncode == 1
    assert says in done.stderr


def test_check_tells_who_holds_what(fabric):
    assert fabric.call("check").returncode == 0
    program = (
        "import ctypes, os\n"
        "lib = ctypes.CDLL('librdma.dylib', use_errno=True)\n"
        "for f in ('get_device_list', 'open_device', 'alloc_pd'):\n"
        "    getattr(lib, 'ibv_' + f).restype = ctypes.c_void_p\n"
        "devices = ctypes.cast(lib.ibv_get_device_list(None),\n"
        "                      ctypes.POINTER(ctypes.c_void_p))\n"
        "context = lib.ibv_open_device(ctypes.c_void_p(devices[0]))\n"
        "assert lib.ibv_alloc_pd(ctypes.c_void_p(context))\n"
        "print('held', flush=True)\n"
        "input()\n"
    )
    command = fabric.command("run", "1", "python3", "-c", program)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            done = fabric.call("check")
            assert done.returncode == 1
            assert f"process {holder.pid} holds 0 QP, 0 CQ, 1 PD, 0 MR" in done.stdout
            held = fabric.show()["devices"][1]["holders"]
            assert [h["pid"] for h in held] == [holder.pid]
        finally:
            holder.kill()
    assert fabric.call("check").returncode == 0


def test_env_prints_what_to_export(fabric):
    done = fabric.call("env", "1")
    assert f"export TBMPI_FABRIC='{fabric.path}'\n" in done.stdout
    assert "export TBMPI_FABRIC_HOST=1\n" in done.stdout
    shell = 'eval "$1"; echo "$TBMPI_FABRIC_HOST $TBMPI_LIBRDMA"'
    said = subprocess.run(
        ["sh", "-c", shell, "sh", done.stdout],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert said.stdout.split() == ["1", str(_paths.fabric_library())]
    assert "no host '5'" in fabric.call("env", "5").stderr


def test_run_gives_back_the_programs_exit_code(fabric):
    assert fabric.call("run", "0", "sh", "-c", "exit 7").returncode == 7
    done = fabric.call("run", "0", "no-such-program")
    assert done.returncode == 1 and "cannot run no-such-program" in done.stderr


def test_help_and_wrong_commands():
    command = str(_paths.fabric_command())
    done = subprocess.run(
        [command, "--help"], capture_output=True, text=True, timeout=9
    )
    assert not done.returncode and "pull CABLE" in done.stdout
    for words in ([], ["dance"], ["create"], ["show"]):
        done = subprocess.run(
            [command, *words], capture_output=True, text=True, timeout=9
        )
        assert done.returncode == 2 and done.stderr.startswith("usage:")


def test_the_documentation_lists_the_switches_as_they_are(switches: list[str]):
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \| `([^`]*)` \|", DOCS.read_text(), re.M)
    assert [(name, default) for name, _, default in rows] == [
        tuple(line.split()[:2]) for line in switches
    ]
    for (_, values, _), line in zip(rows, switches, strict=True):
        words = line.split()[2].rstrip(":")
        if "\\" in words or "|" in words:
            assert values.replace("`", "").replace(", ", "|") == words
