# SPDX-License-Identifier: MIT
"""The command line of tbmpirun, in the spellings of Open MPI and of Hydra.

One table names every option; parsing and ``--help`` both read it. A long
option may be written with one dash or two, and with ``=value``. Options that
make no sense here are taken and noted, so that scripts written for another
launcher run; a word that nobody knows is an error.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tbmpi.launch import hostfile, hosts
from tbmpi.launch.errors import LaunchError


@dataclass
class AppRequest:
    """One program of the job, as typed."""

    words: list[str] = field(default_factory=list)
    ranks: int | None = None
    wdir: str | None = None
    env: dict[str, str | None] = field(default_factory=dict)
    env_keep: list[str] | None = None  # None: as the job says


@dataclass
class OutputRequest:
    """What becomes of the ranks' output."""

    tag: bool = False
    raw: bool = False
    directory: str | None = None
    stdout_pattern: str | None = None
    stderr_pattern: str | None = None


@dataclass
class Request:
    """Everything the user typed, checked word by word but not yet as a whole."""

    apps: list[AppRequest] = field(default_factory=lambda: [AppRequest()])
    env: dict[str, str | None] = field(default_factory=dict)
    env_keep: list[str] | None = None  # None: all of the launcher's own
    hosts: list[hosts.Host] = field(default_factory=list)
    per_node: int | None = None
    sim: str = ""  # a topology
    python: str = ""  # of other machines
    iface: str = ""
    ssh: str = ""
    output_hostfile: str = ""
    router: str = ""  # "auto", "never"
    faults: list[str] = field(default_factory=list)
    output: OutputRequest = field(default_factory=OutputRequest)
    stdin: str = "0"
    timeout: float | None = None
    as_mpi4py: bool = False
    verbose: bool = False
    quiet: bool = False
    dry_run: bool = False
    ask: str = ""  # "help", "version" or "info": print that and leave
    notes: list[str] = field(default_factory=list)

    @property
    def app(self) -> AppRequest:
        """The program whose options are being read."""
        return self.apps[-1]

    def note(self, text: str) -> None:
        """Something the user should know, once."""
        if text not in self.notes:
            self.notes.append(text)


Action = Callable[[Request, Sequence[str]], None]


@dataclass(frozen=True)
class Option:
    """A row of the table: its spellings without dashes, operands, effect."""

    names: tuple[str, ...]
    operands: tuple[str, ...]
    help: str
    act: Action


def parse(words: Sequence[str]) -> Request:
    """Reads a command line; raises LaunchError for what cannot be meant."""
    request = Request()
    reader = _Reader(words)
    while reader.more():
        word = reader.next()
        if word == ":":
            _end_app(request)
            request.apps.append(AppRequest())
        elif word == "--":
            request.app.words = reader.until(":")
        elif word.startswith("-") and word != "-":
            _option(request, reader, word)
        else:
            request.app.words = [word, *reader.until(":")]
    if not request.ask:
        _end_app(request)
    return request


class _Reader:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = list(words)
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._words)

    def next(self) -> str:
        self._at += 1
        return self._words[self._at - 1]

    def until(self, stop: str) -> list[str]:
        taken = []
        while self.more() and self._words[self._at] != stop:
            taken.append(self.next())
        return taken

    def put_back(self, word: str) -> None:
        self._at -= 1
        self._words[self._at] = word


def _end_app(request: Request) -> None:
    if not request.app.words:
        where = " after ':'" if len(request.apps) > 1 else ""
        raise LaunchError(f"no program given{where}; try: tbmpirun -n 4 ./prog")


def _option(request: Request, reader: _Reader, word: str) -> None:
    name = word[1:].removeprefix("-")
    name, equals, value = name.partition("=")
    option = _BY_NAME.get(name)
    if option is None:
        raise LaunchError(_unknown(word, name))
    if equals:
        if not option.operands:
            raise LaunchError(f"option {word}: {word.split('=')[0]} takes no value")
        reader.put_back(value)
    operands: list[str] = []
    for operand in option.operands:
        if name in ("genv", "env") and operands and "=" in operands[0]:
            break  # Hydra also takes K=V as one word
        if not reader.more():
            raise LaunchError(f"option {word} needs {operand}")
        operands.append(reader.next())
    option.act(request, operands)


def _unknown(word: str, name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    remedy = f"did you mean {dashed(near[0])}?" if near else "see tbmpirun --help"
    return f"unknown option {word}; {remedy}"


def dashed(name: str) -> str:
    """The usual spelling of an option: -n, but --timeout."""
    return f"-{name}" if len(name) <= 2 else f"--{name}"


# ------------------------------------------------------------------- actions


def _whole(what: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise LaunchError(f"{what} must be a whole number, not '{text}'")
    if number == 0:
        raise LaunchError(f"{what} must be at least 1, not 0")
    return number


def _ranks(request: Request, words: Sequence[str]) -> None:
    request.app.ranks = _whole("the number of ranks (-n)", words[0])


def _per_node(request: Request, words: Sequence[str]) -> None:
    request.per_node = _whole("the number of ranks per host (-N)", words[0])


def _sim(request: Request, words: Sequence[str]) -> None:
    request.sim = words[0]


def _router(request: Request, words: Sequence[str]) -> None:
    if words[0] not in ("auto", "never"):
        raise LaunchError(f"--router takes auto or never, not '{words[0]}'")
    request.router = words[0]


def _fault(request: Request, words: Sequence[str]) -> None:
    request.faults.append(words[0])


def _hosts(request: Request, words: Sequence[str]) -> None:
    request.hosts += hosts.parse_list(words[0])


def _hostfile(request: Request, words: Sequence[str]) -> None:
    found = hostfile.read(words[0])
    request.hosts += found.hosts
    for key, value in found.env:
        request.env.setdefault(key, value)


def _map_by(request: Request, words: Sequence[str]) -> None:
    parts = words[0].split(":")
    if parts[0] == "ppr" and len(parts) > 2 and parts[2] == "node":
        request.per_node = _whole("the number of ranks per host (ppr)", parts[1])
    elif parts[0].lower() not in ("", "slot", "node", "host"):
        request.note(f"--map-by {words[0]} is ignored: ranks are placed by host only")


def _pair(words: Sequence[str]) -> tuple[str, str | None]:
    if len(words) == 2:
        return words[0], words[1]
    key, equals, value = words[0].partition("=")
    if not key:
        raise LaunchError(f"'{words[0]}' names no environment variable")
    return key, value if equals else None


def _env_job(request: Request, words: Sequence[str]) -> None:
    key, value = _pair(words)
    request.env[key] = value


def _env_app(request: Request, words: Sequence[str]) -> None:
    key, value = _pair(words)
    request.app.env[key] = value


def _keep_job(names: list[str] | None) -> Action:
    def act(request: Request, words: Sequence[str]) -> None:
        request.env_keep = words[0].split(",") if words else names

    return act


def _keep_app(request: Request, words: Sequence[str]) -> None:
    request.app.env_keep = words[0].split(",") if words else []


def _wdir(request: Request, words: Sequence[str]) -> None:
    request.app.wdir = words[0]


def _tag(request: Request, _words: Sequence[str]) -> None:
    request.output.tag = True


def _output(request: Request, words: Sequence[str]) -> None:
    for item in words[0].lstrip(":").replace(":", ",").split(","):
        key, _, value = item.partition("=")
        if key in ("tag", "tag-detailed", "tag-fullname", "rank"):
            request.output.tag = True
        elif key == "raw":
            request.output.raw = True
        elif key in ("dir", "directory") and value:
            request.output.directory = value
        elif key in (
            "timestamp",
            "xml",
            "merge",
            "merge-stderr-to-stdout",
            "copy",
            "nocopy",
        ):
            request.note(f"--output {item} is ignored")
        else:
            raise LaunchError(
                f"--output {item} is not known; it takes tag, raw or dir=PATH"
            )


def _stdout_pattern(request: Request, words: Sequence[str]) -> None:
    request.output.stdout_pattern = words[0]


def _stderr_pattern(request: Request, words: Sequence[str]) -> None:
    request.output.stderr_pattern = words[0]


def _stdin(request: Request, words: Sequence[str]) -> None:
    if words[0] not in ("all", "none") and not words[0].isdigit():
        raise LaunchError(f"--stdin takes all, none or a rank, not '{words[0]}'")
    request.stdin = words[0]


def _timeout(request: Request, words: Sequence[str]) -> None:
    request.timeout = seconds("--timeout", words[0])


def seconds(what: str, text: str) -> float:
    """A positive number of seconds, or a LaunchError that names `what`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise LaunchError(f"{what} takes a number of seconds above 0, not '{text}'")
    return value


def _set(name: str) -> Action:
    def act(request: Request, _words: Sequence[str]) -> None:
        setattr(request, name, True)

    return act


def _text(name: str) -> Action:
    def act(request: Request, words: Sequence[str]) -> None:
        setattr(request, name, words[0])

    return act


def _ask(what: str) -> Action:
    def act(request: Request, _words: Sequence[str]) -> None:
        request.ask = request.ask or what

    return act


def _nothing(_request: Request, _words: Sequence[str]) -> None:
    """For options whose wish is met anyway."""


def _ignore(text: str) -> Action:
    def act(request: Request, words: Sequence[str]) -> None:
        request.note(text.format(*words))

    return act


def _mca(request: Request, _words: Sequence[str]) -> None:
    request.note(
        "--mca settings are Open MPI's and are ignored; "
        "tbmpi info --settings lists ours"
    )


# --------------------------------------------------------------------- table

_PINNING = "--bind-to {} is ignored: ranks are not pinned to processors"

SECTIONS: tuple[tuple[str, tuple[Option, ...]], ...] = (
    (
        "Ranks and hosts",
        (
            Option(
                ("n", "np", "c"),
                ("N",),
                "start N ranks of the program (default 1)",
                _ranks,
            ),
            Option(
                ("N", "ppn", "npernode", "ranks-per-node"),
                ("N",),
                "ranks per host",
                _per_node,
            ),
            Option(
                ("H", "host", "hosts"),
                ("LIST",),
                "hosts, as in a:2,b; a:2 takes 2 ranks, the others share evenly",
                _hosts,
            ),
            Option(
                ("hostfile", "machinefile", "f"),
                ("FILE",),
                "the same from a file: 'host slots=N', 'host:N' or MLX's JSON",
                _hostfile,
            ),
            Option(
                ("output-hostfile",),
                ("FILE",),
                "write the hosts to a file as MLX takes it",
                _text("output_hostfile"),
            ),
            Option(("map-by",), ("HOW",), "slot, node or ppr:N:node", _map_by),
        ),
    ),
    (
        "Emulated Macs on this machine",
        (
            Option(
                ("sim",),
                ("TOPO",),
                "N Macs and their cables: mesh:N, ring:N, line:N, star:N, with NxC "
                "for C cables between neighbours, or a file TOPO.json",
                _sim,
            ),
            Option(
                ("fault",),
                ("SPEC",),
                "what goes wrong, and when: 'at 2s pull 0' (a cable), 'at 1s kill "
                "router 2'; tbmpi sim faults lists them",
                _fault,
            ),
            Option(
                ("router",),
                ("WHO",),
                "auto: a router a Mac owns the verbs; never: the Mac's only rank",
                _router,
            ),
        ),
    ),
    (
        "Other machines",
        (
            Option(
                ("python",),
                ("PATH",),
                "the Python there that has tbmpi; default: this one's path",
                _text("python"),
            ),
            Option(
                ("iface",),
                ("NAME",),
                "the network interface for ranks' connections, e.g. en0",
                _text("iface"),
            ),
            Option(
                ("ssh", "launcher-exec"),
                ("CMD",),
                "what to use as ssh, e.g. 'ssh -p 2222'",
                _text("ssh"),
            ),
        ),
    ),
    (
        "Environment of the ranks",
        (
            Option(
                ("x",),
                ("K[=V]",),
                "set K for all ranks, or copy it from here; OMP_NUM_THREADS is the "
                "machine's cores / its ranks unless set",
                _env_job,
            ),
            Option(("genv",), ("K", "V"), "the same, in Hydra's spelling", _env_job),
            Option(("env",), ("K", "V"), "set K for this program only", _env_app),
            Option(
                ("genvall",),
                (),
                "pass the whole environment (default)",
                _keep_job(None),
            ),
            Option(("genvnone",), (), "pass nothing of the environment", _keep_job([])),
            Option(
                ("genvlist",), ("A,B,..",), "pass only these variables", _keep_job([])
            ),
            Option(("envnone",), (), "as -genvnone, for this program only", _keep_app),
            Option(
                ("envlist",),
                ("A,B,..",),
                "as -genvlist, for this program only",
                _keep_app,
            ),
            Option(
                ("wdir", "wd", "cwd"), ("DIR",), "working directory of the ranks", _wdir
            ),
        ),
    ),
    (
        "Python",
        (
            Option(
                ("as-mpi4py",),
                (),
                "mpi4py.MPI is tbmpi.MPI in the ranks' Pythons: runs programs "
                "written for mpi4py, unchanged",
                _set("as_mpi4py"),
            ),
        ),
    ),
    (
        "Input and output",
        (
            Option(
                ("tag-output", "prepend-rank", "l"),
                (),
                "begin each line with its [rank]",
                _tag,
            ),
            Option(
                ("output",),
                ("HOW",),
                "tag; raw (bytes as they come, lines may mix); "
                "dir=PATH (files PATH/rank.R/stdout and stderr)",
                _output,
            ),
            Option(
                ("outfile-pattern",),
                ("P",),
                "stdout to files; %r is the rank",
                _stdout_pattern,
            ),
            Option(
                ("errfile-pattern",),
                ("P",),
                "stderr to files; %r is the rank",
                _stderr_pattern,
            ),
            Option(
                ("stdin",),
                ("WHO",),
                "the rank that reads standard input (default 0), or all, or none",
                _stdin,
            ),
        ),
    ),
    (
        "Watching the job",
        (
            Option(
                ("timeout",),
                ("S",),
                "after S seconds say where every rank is, with stacks, and end "
                "the job with exit code 124 (also: MPIEXEC_TIMEOUT)",
                _timeout,
            ),
            Option(("v", "verbose"), (), "say what is started", _set("verbose")),
            Option(("q", "quiet"), (), "no notes", _set("quiet")),
            Option(
                ("dry-run", "do-not-launch"),
                (),
                "print what would be started, and stop",
                _set("dry_run"),
            ),
        ),
    ),
    (
        "About tbmpi",
        (
            Option(("h", "help", "?"), (), "this text", _ask("help")),
            Option(("V", "version"), (), "the version", _ask("version")),
            Option(("info",), (), "the same as: tbmpi info", _ask("info")),
        ),
    ),
)

# Taken so that scripts written for another launcher run.
FOREIGN: tuple[Option, ...] = (
    Option(("rank-by",), ("HOW",), "", _ignore("--rank-by {} is ignored")),
    Option(("rankmap",), ("HOW",), "", _ignore("-rankmap {} is ignored")),
    Option(("bind-to",), ("WHAT",), "", _ignore(_PINNING)),
    Option(("report-bindings",), (), "", _nothing),
    Option(("oversubscribe",), (), "", _nothing),
    Option(
        ("nooversubscribe",),
        (),
        "",
        _ignore("--nooversubscribe is ignored: ranks may outnumber processors"),
    ),
    Option(("use-hwthread-cpus",), (), "", _nothing),
    Option(
        ("mca", "gmca", "omca", "gomca", "prtemca", "pmixmca"), ("A", "B"), "", _mca
    ),
    Option(("allow-run-as-root",), (), "", _nothing),
    Option(("prefix",), ("DIR",), "", _ignore("--prefix {} is ignored")),
    Option(("launcher",), ("HOW",), "", _nothing),
    Option(
        ("display",), ("WHAT",), "", _ignore("--display {} is ignored; see --dry-run")
    ),
    Option(("report-state-on-timeout", "get-stack-traces"), (), "", _nothing),
    Option(("print-all-exitcodes",), (), "", _nothing),
)

_BY_NAME: dict[str, Option] = {
    name: option
    for option in (*(o for _, rows in SECTIONS for o in rows), *FOREIGN)
    for name in option.names
}

_HEAD = """\
usage: tbmpirun [options] program [arguments]
       tbmpirun [options] program [arguments] : [options] program2 [arguments]

Starts the ranks of an MPI job, and any other program, N times. Long options
may be written with one dash or with two."""

_TAIL = """\
Taken, for scripts written for other launchers, and ignored, with a note where
that could surprise:
{foreign}

Exit code: 0 when all ranks ended with 0; else that of the first rank that
failed, or 128 + the number of the signal that ended it; the argument of
MPI_Abort; 124 after --timeout; 2, 126, 127 when the job could not start.

Signals: INT, TERM, HUP, USR1 and USR2 are passed to all ranks, TSTP and CONT
stop and continue them; a second INT (Ctrl-C) ends the job at once."""


def help_text() -> str:
    """The text of --help."""
    lines = [_HEAD]
    for title, rows in SECTIONS:
        lines += ["", f"{title}:"]
        for option in rows:
            names = ", ".join(dashed(name) for name in option.names)
            left = f"  {names} {' '.join(option.operands)}".rstrip()
            lines += _wrapped(left, option.help)
    foreign = _filled([dashed(name) for option in FOREIGN for name in option.names])
    lines += ["", _TAIL.format(foreign=foreign)]
    return "\n".join(lines)


def _wrapped(left: str, text: str, column: int = 34, width: int = 79) -> list[str]:
    lines, line = [], left
    if len(left) >= column:
        lines, line = [left], ""
    line = line.ljust(column)
    for word in text.split():
        if len(line) + 1 + len(word) > width and line.strip():
            lines.append(line.rstrip())
            line = " " * column
        line += word + " "
    return [*lines, line.rstrip()]


def _filled(words: list[str], width: int = 79) -> str:
    lines, line = [], " "
    for word in words:
        if len(line) + 1 + len(word) > width:
            lines.append(line)
            line = " "
        line += " " + word
    return "\n".join([*lines, line])
