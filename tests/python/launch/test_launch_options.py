# SPDX-License-Identifier: MIT
"""The command line: both spellings, and one clear line for what is wrong."""

from __future__ import annotations

import pytest

from tbmpi.launch import options
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.plan import make_plan

HERE = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C"}


def plan(line: str):
    request = options.parse(line.split())
    return make_plan(request, HERE), request


@pytest.mark.parametrize(
    "spelling", ["-n 3", "-np 3", "-c 3", "--np 3", "-n=3", "--np=3"]
)
def test_ranks(spelling):
    assert plan(f"{spelling} true")[0].size == 3


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("true", 1),
        ("-N 3 true", 3),
        ("-ppn 2 true", 2),
        ("--map-by ppr:2:node true", 2),
        ("-H localhost:4 true", 4),
        ("-hosts localhost,localhost true", 2),
        ("-n 2 true : -n 3 false", 5),
        ("-n 2 true : false", 3),
    ],
)
def test_size(line, size):
    assert plan(line)[0].size == size


def test_programs_after_a_colon_have_their_own_options():
    job, _ = plan("-x A=1 -n 1 -env B 1 true x -n 9 : -n 2 -wdir / -env B 2 false y")
    first, second, third = job.ranks
    assert first.argv == ("true", "x", "-n", "9")
    assert (second.argv, third.argv) == (("false", "y"), ("false", "y"))
    assert [rank.env["A"] for rank in job.ranks] == ["1"] * 3
    assert [rank.env["B"] for rank in job.ranks] == ["1", "2", "2"]
    assert [rank.app for rank in job.ranks] == [0, 1, 1]
    assert second.cwd == "/"


@pytest.mark.parametrize(
    "words", ["-x A=1", "-genv A 1", "-genv A=1", "--genv A 1", "-env A 1"]
)
def test_setting_a_variable(words):
    assert plan(f"{words} true")[0].ranks[0].env["A"] == "1"


def test_passing_variables():
    assert plan("-x HOME true")[0].ranks[0].env["HOME"] == "/"
    nothing = plan("-genvnone true")[0].ranks[0].env
    assert "HOME" not in nothing
    assert nothing["PMI_RANK"] == "0"
    some = plan("-genvlist HOME,LANG true")[0].ranks[0].env
    assert some["HOME"] == "/"
    assert "PATH" not in some
    assert "HOME" in plan("-genvall true")[0].ranks[0].env


def test_copying_an_unset_variable_is_noted():
    _, request = plan("-x NOPE true")
    assert any("NOPE" in note for note in request.notes)


def test_what_programs_look_for_is_set():
    env = plan("-n 4 true")[0].ranks[2].env
    for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "TBMPI_RANK", "MPI_LOCALRANKID"):
        assert env[name] == "2"
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "TBMPI_SIZE", "MPI_LOCALNRANKS"):
        assert env[name] == "4"


def test_variables_of_an_outer_launcher_do_not_reach_the_ranks():
    outer = {
        **HERE,
        "PMI_PORT": "x",
        "PMIX_RANK": "3",
        "TBMPI_SHM_FD": "9",
        "TBMPI_LOG": "info",
    }
    env = make_plan(options.parse(["true"]), outer).ranks[0].env
    assert not {"PMI_PORT", "PMIX_RANK", "TBMPI_SHM_FD"} & set(env)
    assert env["TBMPI_LOG"] == "info"


@pytest.mark.parametrize(
    "words", ["--tag-output", "-prepend-rank", "-l", "--output tag"]
)
def test_tagging(words):
    assert options.parse([*words.split(), "true"]).output.tag


def test_raw_and_directory():
    assert options.parse(["--output", ":raw", "true"]).output.raw
    both = options.parse(["--output", "tag,dir=/a/b", "true"]).output
    assert (both.tag, both.directory) == (True, "/a/b")


@pytest.mark.parametrize(
    "words",
    [
        "--mca btl tcp,self",
        "--gmca a b",
        "--bind-to core",
        "--rank-by slot",
        "--map-by core",
        "-rankmap x",
        "--display map",
        "--prefix /opt",
        "--output timestamp",
    ],
)
def test_options_of_other_launchers_are_noted(words):
    request = options.parse([*words.split(), "true"])
    assert len(request.notes) == 1
    assert "\n" not in request.notes[0]


@pytest.mark.parametrize(
    "words",
    ["--oversubscribe", "--allow-run-as-root", "--report-bindings", "--map-by node"],
)
def test_wishes_that_are_met_anyway_need_no_note(words):
    assert options.parse([*words.split(), "true"]).notes == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "no program given"),
        ("-n 2", "no program given"),
        ("-n 2 true :", "no program given after ':'"),
        ("-n 0 true", "at least 1"),
        ("-n -1 true", "whole number"),
        ("-n x true", "whole number"),
        ("-n", "-n needs N"),
        ("-n 100000 true", "too many"),
        ("--tiemout 3 true", "did you mean --timeout?"),
        ("--frobnicate true", "see tbmpirun --help"),
        ("--timeout 0 true", "above 0"),
        ("--timeout soon true", "number of seconds"),
        ("--oversubscribe=3 true", "takes no value"),
        ("--output purple true", "it takes tag, raw or dir=PATH"),
        ("--stdin some true", "all, none or a rank"),
        ("-n 2 --stdin 2 true", "ranks 0 to 1 only"),
        ("-x =1 true", "names no environment variable"),
        ("-wdir /nope true", "/nope"),
        ("-H mac2:1 -n 2 true", "the hosts take 1 (mac2:1)"),
        ("-H localhost:x true", "number of ranks"),
        ("--hostfile /nope true", "/nope"),
        ("no-such-program-here", "no program 'no-such-program-here' on PATH"),
        ("./no-such-program", "no such program"),
        ("/etc", "is a directory"),
        ("/etc/passwd", "is not executable"),
    ],
)
def test_one_clear_line(line, says):
    with pytest.raises(LaunchError) as caught:
        plan(line)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.code in (2, 126, 127)


def test_a_script_that_is_not_executable_gets_the_right_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "solver.py").write_text("print(1)\n")
    for word in ("solver.py", "./solver.py"):
        with pytest.raises(LaunchError, match=r"tbmpirun -n 4 python (./)?solver\.py"):
            plan(f"-n 2 {word}")


def test_help_names_every_option():
    text = options.help_text()
    for _, rows in options.SECTIONS:
        for option in rows:
            assert options.dashed(option.names[0]) in text
    for option in options.FOREIGN:
        assert options.dashed(option.names[0]) in text
    assert max(map(len, text.splitlines())) <= 80
