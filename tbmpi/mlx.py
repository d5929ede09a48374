# SPDX-License-Identifier: MIT
"""Communication of MLX arrays: what mx.distributed has, on any communicator.

    from tbmpi import mlx as tb
    total = tb.all_sum(gradient)

Unlike in mx.distributed nothing is lazy: a call evaluates its argument, blocks
until the data are there, and returns a fresh array that nothing else refers to.
Writing into an existing array would change every alias of it, and the results of
operations that wait to be evaluated.

Arrays of every dtype of MLX go; half precision is added up in single precision
and rounded once a step. `comm` is a communicator of tbmpi.MPI, COMM_WORLD if not
given. Collective calls are made by all of its ranks, with arrays of one shape and
dtype. What does not fit raises TypeError or ValueError, errors of MPI raise
MPI.Exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tbmpi import MPI

try:
    import mlx.core as mx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "tbmpi.mlx needs MLX: pip install 'tbmpi[mlx]'", name=error.name
    ) from None

__all__ = [
    "all_gather",
    "all_max",
    "all_min",
    "all_sum",
    "barrier",
    "recv",
    "recv_like",
    "send",
    "split",
    "sum_scatter",
]

_HALVES = {mx.float16: MPI.FLOAT16_T, mx.bfloat16: MPI.BFLOAT16_T}


def all_sum(x: mx.array, comm: MPI.Comm | None = None) -> mx.array:
    """The sum over the ranks, element by element, with the same bits on all."""
    return _reduced(x, MPI.SUM, comm)


def all_max(x: mx.array, comm: MPI.Comm | None = None) -> mx.array:
    """The largest of the ranks' elements; complex ones are compared as by MLX."""
    return _reduced(x, MPI.MAX, comm)


def all_min(x: mx.array, comm: MPI.Comm | None = None) -> mx.array:
    """The smallest of the ranks' elements; complex ones are compared as by MLX."""
    return _reduced(x, MPI.MIN, comm)


def all_gather(x: mx.array, comm: MPI.Comm | None = None) -> mx.array:
    """The ranks' arrays one after the other along the first axis.

    A scalar counts as an array of one element.
    """
    comm = _comm(comm)
    x = _ready(x)
    first, *rest = x.shape or (1,)
    out = _fresh((comm.size * first, *rest), x.dtype)
    comm.Allgather(_bytes(x), [out, x.nbytes, MPI.BYTE])
    return out


def sum_scatter(x: mx.array, comm: MPI.Comm | None = None) -> mx.array:
    """This rank's part, along the first axis, of the sum over the ranks.

    The first axis must be a multiple of the number of ranks.
    """
    comm = _comm(comm)
    x = _ready(x)
    if x.ndim == 0 or x.shape[0] % comm.size:
        raise ValueError(
            f"sum_scatter: the first axis of shape {x.shape} is not a multiple of "
            f"the {comm.size} ranks"
        )
    if _is_unknown(x.dtype):
        return sum_scatter(x.astype(mx.float32), comm).astype(x.dtype)
    out = _fresh((x.shape[0] // comm.size, *x.shape[1:]), x.dtype)
    comm.Reduce_scatter_block(x, out, _op_for(MPI.SUM, x.dtype))
    return out


def send(x: mx.array, dest: int, tag: int = 0, comm: MPI.Comm | None = None) -> None:
    """Sends an array; the receiver has to know its shape and dtype."""
    _comm(comm).Send(_bytes(_ready(x)), dest, tag)


def recv(
    shape: Sequence[int],
    dtype: mx.Dtype,
    source: int,
    tag: int = 0,
    comm: MPI.Comm | None = None,
) -> mx.array:
    """An array sent by rank `source`. ValueError if it is shorter than `shape`."""
    out = _fresh(tuple(shape), dtype)
    status = MPI.Status()
    _comm(comm).Recv(_bytes(out), source, tag, status)
    if status.Get_count() != out.nbytes and source != MPI.PROC_NULL:
        raise ValueError(
            f"recv: {status.Get_count()} bytes came from rank {status.source}, but "
            f"shape {tuple(shape)} of {dtype} has {out.nbytes}"
        )
    return out


def recv_like(
    x: mx.array, source: int, tag: int = 0, comm: MPI.Comm | None = None
) -> mx.array:
    """As recv, with the shape and dtype of `x`."""
    return recv(x.shape, x.dtype, source, tag, comm)


def barrier(comm: MPI.Comm | None = None) -> None:
    """Blocks until every rank has called it."""
    _comm(comm).Barrier()


def split(color: int, key: int = 0, comm: MPI.Comm | None = None) -> MPI.Intracomm:
    """A communicator of the ranks with the same `color`, ordered by `key`.

    It is freed by its method Free.
    """
    return _comm(comm).Split(color, key)


# ------------------------------------------------------------------ arguments


def _comm(comm: MPI.Comm | None) -> Any:
    if comm is None:
        return MPI.COMM_WORLD
    if not isinstance(comm, MPI.Intracomm):
        raise TypeError(
            f"comm is an MPI.Intracomm or None, not {type(comm).__name__}; groups "
            "of mx.distributed belong to another library"
        )
    return comm


def _ready(x: mx.array) -> mx.array:
    """The array in memory and in C order."""
    if not isinstance(x, mx.array):
        raise TypeError(f"expected an mx.array, not {type(x).__name__}")
    x = mx.contiguous(x)
    mx.eval(x)
    return x


def _fresh(shape: tuple[int, ...], dtype: mx.Dtype) -> mx.array:
    """An array to receive into."""
    out = mx.zeros(shape, dtype, stream=mx.cpu)
    mx.eval(out)
    return out


def _bytes(x: mx.array) -> list[Any]:
    """A message that only moves data, for which no datatype is needed."""
    return [x, x.nbytes, MPI.BYTE]


# ----------------------------------------------------------------- reductions


def _reduced(x: mx.array, op: MPI.Op, comm: MPI.Comm | None) -> mx.array:
    comm = _comm(comm)
    x = _ready(x)
    if x.dtype == mx.complex64 and op != MPI.SUM:
        every = all_gather(x[None], comm)
        return (mx.max if op == MPI.MAX else mx.min)(every, axis=0)
    if _is_unknown(x.dtype):
        return _reduced(x.astype(mx.float32), op, comm).astype(x.dtype)
    out = _fresh(x.shape, x.dtype)
    comm.Allreduce(x, out, _op_for(op, x.dtype))
    return out


def _op_for(op: MPI.Op, dtype: mx.Dtype) -> MPI.Op:
    """The operation; of truth values MPI has no sum, maximum or minimum."""
    if dtype != mx.bool_:
        return op
    return MPI.LAND if op == MPI.MIN else MPI.LOR


def _is_unknown(dtype: mx.Dtype) -> bool:
    """Whether the MPI library has no such type: another one than tbmpi's own."""
    return dtype in _HALVES and not _HALVES[dtype]
