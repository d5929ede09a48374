# SPDX-License-Identifier: MIT
"""MPI for Macs joined by Thunderbolt cables.

    from tbmpi import MPI, COMM_WORLD

``MPI`` has the names and the meaning of ``mpi4py.MPI``. Importing this package
loads no library and starts nothing; the first use of ``MPI``, ``COMM_WORLD`` or
``COMM_SELF`` does, once: see ``tbmpi.rc`` for what can be chosen before.
``empty`` and ``zeros`` make numpy arrays in memory of the library's, ``datatype``
describes elements of structured arrays, ``tbmpi.mlx`` communicates arrays of MLX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tbmpi._rc import rc

if TYPE_CHECKING:
    from tbmpi import MPI
    from tbmpi.dtypes import datatype
    from tbmpi.memory import empty, zeros
    from tbmpi.MPI import COMM_SELF, COMM_WORLD

    __version__: str

__all__ = ["COMM_SELF", "COMM_WORLD", "MPI", "datatype", "empty", "rc", "zeros"]


def __getattr__(name: str) -> Any:
    if name in ("COMM_SELF", "COMM_WORLD", "MPI"):
        import importlib

        module = importlib.import_module("tbmpi.MPI")
        value = module if name == "MPI" else getattr(module, name)
    elif name in ("empty", "zeros"):
        from tbmpi import memory

        value = getattr(memory, name)
    elif name == "datatype":
        from tbmpi.dtypes import datatype as value
    elif name == "__version__":
        from tbmpi.info import version

        value = version()
    else:
        raise AttributeError(f"module 'tbmpi' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
