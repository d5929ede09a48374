# SPDX-License-Identifier: MIT
"""Runs a Python program: ``python -m tbmpi [FILE | -m MODULE | -c CODE | -] ...``.

It is also ``mpi4py.run`` where mpi4py is not installed. A rank that fails ends the
job, with this or without, as tbmpi.rc.abort says.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType

USAGE = """\
usage: python -m tbmpi [-h] [--version] [FILE | -m MODULE | -c CODE | -] [ARGUMENT ...]

Runs a Python program written for mpi4py, unchanged, on tbmpi: mpi4py.MPI is
tbmpi.MPI, in this process and in the Pythons that it starts. On several ranks:
tbmpirun -n 4 python -m tbmpi prog.py, or tbmpirun --as-mpi4py -n 4 python prog.py."""


def run_command_line(args: Sequence[str] | None = None) -> None:
    """Runs what the words name (sys.argv's if None) as ``__main__``."""
    words = list(sys.argv[1:] if args is None else args)
    sys.argv[:] = words
    kind = words[0]
    if kind == "-m":
        sys.argv[:] = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        _run_code(compile(words[1], "<string>", "exec", 0, True))
    elif kind == "-":
        _run_code(compile(sys.stdin.read(), "<stdin>", "exec", 0, True))
    else:
        if not sys.flags.safe_path:
            sys.path[0] = os.path.dirname(os.path.realpath(kind))
        runpy.run_path(kind, run_name="__main__")


def _run_code(code: CodeType) -> None:
    main = ModuleType("__main__")
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = main
    if not sys.flags.safe_path:
        sys.path[0] = ""
    exec(code, main.__dict__)


def set_abort_status(status: object) -> None:
    """Makes the job end with that exit code when this interpreter exits.

    `status` is as in sys.exit; 0 and None change nothing.
    """
    module = sys.modules.get("mpi4py.MPI") or sys.modules.get("tbmpi.MPI")
    if isinstance(status, SystemExit):
        status = status.code
    elif isinstance(status, KeyboardInterrupt):
        status = 130
    if not isinstance(status, int):
        status = 0 if status is None else 1
    if module is not None and status:
        module._set_abort_status(status)


def main() -> None:
    """The command line; ends the interpreter if there is nothing to run."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        sys.exit(0 if words else 2)
    if words[0] in ("-V", "--version"):
        from tbmpi.info import version

        print(f"tbmpi {version()}")
        sys.exit(0)
    known = words[0] in ("-m", "-c", "-")
    if not known and words[0].startswith("-"):
        sys.exit(f"python -m tbmpi: unknown option {words[0]}; see --help")
    if words[0] in ("-m", "-c") and len(words) < 2:
        what = "a module" if words[0] == "-m" else "Python code"
        sys.exit(f"python -m tbmpi: {words[0]} needs {what}")
    if not known and not os.path.exists(words[0]):
        sys.exit(f"python -m tbmpi: no such file: {words[0]}")
    from tbmpi import as_mpi4py

    as_mpi4py.install()
    os.environ.update(as_mpi4py.environment(os.environ))
    run_command_line(words)


if __name__ == "__main__":
    main()
