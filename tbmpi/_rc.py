# SPDX-License-Identifier: MIT
"""What can be chosen before the first use of MPI, under mpi4py's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Rc:
    """Options; ``tbmpi.rc(initialize=False)`` or ``tbmpi.rc.errors = "fatal"``.

    They are read when MPI is first used, so set them right after ``import tbmpi``.
    As for mpi4py, an environment variable MPI4PY_RC_<NAME> outranks what is set here
    (``MPI4PY_RC_RECV_MPROBE=no``).

    Attributes:
        initialize: call MPI_Init_thread at the first use (True).
        threads: ask for thread support at all (True).
        thread_level: ``"single"``, ``"funneled"``, ``"serialized"`` or
            ``"multiple"`` (the default).
        finalize: call MPI_Finalize when the interpreter ends; None means "if it
            was tbmpi that initialized".
        errors: ``"exception"`` (errors raise MPI.Exception), ``"default"`` (the
            library's), ``"abort"`` or ``"fatal"``.
        abort: end the whole job when a rank ends by an uncaught exception or
            with an exit code other than 0 (True). mpi4py does so only under
            ``python -m mpi4py``.
        recv_mprobe: taken for the sake of mpi4py programs; objects are always
            received with matched probes.
        irecv_bufsz: bytes that ``irecv`` of an object reserves (32768) where
            address space is short; elsewhere any object fits.
        fast_reduce: reduce objects along a tree (True), or one after the other.
    """

    initialize: bool = True
    threads: bool = True
    thread_level: str = "multiple"
    finalize: bool | None = None
    errors: str = "exception"
    abort: bool = True
    recv_mprobe: bool = True
    irecv_bufsz: int = 32768
    fast_reduce: bool = True

    def __init__(self, **options: Any) -> None:
        self(**options)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Rc.__annotations__:
            known = ", ".join(Rc.__annotations__)
            raise TypeError(f"tbmpi.rc has no option {name!r}; there are {known}")
        super().__setattr__(name, value)

    def __call__(self, **options: Any) -> None:
        """Sets several options at once."""
        for name, value in options.items():
            setattr(self, name, value)

    def read_environment(self, environ: Mapping[str, str]) -> None:
        """Takes over what MPI4PY_RC_* say. ValueError names one that makes no sense."""
        for name in Rc.__annotations__:
            variable = f"MPI4PY_RC_{name.upper()}"
            if variable in environ:
                setattr(self, name, _value(variable, environ[variable], name))

    def __repr__(self) -> str:
        values = (f"{name}={getattr(self, name)!r}" for name in Rc.__annotations__)
        return f"<tbmpi.rc {', '.join(values)}>"


_WORDS = {
    **dict.fromkeys(("0", "n", "no", "f", "false", "off"), False),
    **dict.fromkeys(("1", "y", "yes", "t", "true", "on"), True),
}


def _value(variable: str, text: str, name: str) -> Any:
    """The value of an option, of the kind that its default has."""
    default = getattr(Rc, name)
    if isinstance(default, str):
        return text.lower()
    word = text.strip().lower()
    if isinstance(default, bool | None):
        if word in _WORDS:
            return _WORDS[word]
    elif word.isdigit():
        return int(word)
    kind = "a number" if type(default) is int else "yes or no"
    raise ValueError(f"{variable} is {text!r}, not {kind}")


rc = Rc()
