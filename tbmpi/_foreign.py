# SPDX-License-Identifier: MIT
"""Memory of objects that have no buffer protocol, by their array interfaces.

Three are known: DLPack (https://dmlc.github.io/dlpack, versions 0 and 1), the
CUDA array interface, and numpy's __array_interface__. Memory on a device cannot
be part of a message: the library would read it as its own. What counts is where
the memory is, not what it is said to be: without a device's driver in the
process there is no memory of that device, and a plain address is one.
"""

from __future__ import annotations

import os
import struct
import sys
import warnings
from math import prod
from operator import index
from typing import Any, NamedTuple

from tbmpi._fast import capsule_pointer
from tbmpi._ffi import ffi

_ABSENT = object()


class Region(NamedTuple):
    """Contiguous memory of some object."""

    address: int
    size: int  # bytes
    form: str  # as memoryview.format
    itemsize: int  # bytes
    readonly: bool
    keep: Any  # who keeps it keeps the memory
    on_device: bool  # so the object says


def region(thing: Any) -> Region | None:
    """The memory of an object, None if it has none of the three interfaces.

    BufferError if it cannot be used: on a device, not contiguous, masked;
    TypeError, ValueError or KeyError if the interface is not what it should be.
    """
    try:
        export, device = thing.__dlpack__, thing.__dlpack_device__
    except AttributeError:
        pass
    else:
        return _from_dlpack(export, device)
    for name in ("__cuda_array_interface__", "__array_interface__"):
        interface = getattr(thing, name, _ABSENT)
        if interface is not _ABSENT:
            return _from_interface(thing, name, interface)
    return None


# -------------------------------------------------------------------- devices

# DLPack's device types whose memory is the processor's, too.
_HOST = {1: "CPU", 3: "CUDA, pinned", 11: "ROCm, pinned", 13: "CUDA, managed"}
_CUDA, _ROCM = 2, 10
_DRIVERS = {
    _CUDA: ("libcuda.so.1",),
    _ROCM: ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"),
}


def _require_no_driver(kind: int) -> None:
    for name in _DRIVERS[kind]:
        if _is_loaded(name):
            raise BufferError(
                f"the memory is on a device ({name} is in use); copy it to the host"
            )


def _is_loaded(library: str) -> bool:
    if not hasattr(os, "RTLD_NOLOAD"):
        return False
    try:
        ffi.dlopen(library, os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return False
    return True


# --------------------------------------------------------------------- DLPack

# struct DLTensor: data, device type and number, ndim, type code, bits, lanes,
# shape, strides, offset in bytes.
_TENSOR = struct.Struct("@PiiiBBHPPQ")
# What comes before it in version 1: major, minor, context, deleter, flags.
_VERSION_1 = struct.Struct("@IIPPQ")
_READ_ONLY = 1
_MOST_DIMENSIONS = 64

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6


def _from_dlpack(export: Any, device: Any) -> Region:
    kind, number = device()
    kind, _ = index(kind), index(number)
    if kind in _DRIVERS:
        _require_no_driver(kind)
    capsule = _capsule(export, kind)
    address = capsule_pointer(capsule, "dltensor_versioned")
    readonly = False
    if address:
        head = ffi.buffer(ffi.cast("char *", address), _VERSION_1.size)
        major, _, _, _, flags = _VERSION_1.unpack(head)
        if major < 1:
            raise BufferError(f"DLPack: a tensor of version {major} in a new capsule")
        readonly = bool(flags & _READ_ONLY)
        address += _VERSION_1.size
    else:
        address = capsule_pointer(capsule, "dltensor")
    if not address:
        raise BufferError("DLPack: __dlpack__ returned no tensor, or a used one")
    head = ffi.buffer(ffi.cast("char *", address), _TENSOR.size)
    data, _, _, ndim, code, bits, lanes, shape, strides, offset = _TENSOR.unpack(head)
    count = _checked_shape(ndim, shape, strides)
    size = count * ((bits * lanes + 7) // 8)
    form, itemsize = _tensor_format(code, bits, lanes)
    on_device = kind in _DRIVERS
    return Region(data + offset, size, form, itemsize, readonly, capsule, on_device)


def _capsule(export: Any, kind: int) -> Any:
    """The capsule; by the newer call, which refuses to copy, where there is one."""
    if kind not in _HOST and kind not in _DRIVERS:
        try:
            return export(max_version=(1, 0), dl_device=(1, 0), copy=False)
        except (BufferError, TypeError, ValueError) as error:
            raise BufferError(
                f"the memory is on a device (DLPack's type {kind}); copy it to the host"
            ) from error
    stream = {} if kind == 1 else {"stream": -1}
    try:
        return export(**stream, max_version=(1, 0), copy=False)
    except TypeError:
        return export(**stream)


def _checked_shape(ndim: int, shape: int, strides: int) -> int:
    """Number of elements, which must be contiguous."""
    if not 0 <= ndim <= _MOST_DIMENSIONS:
        raise BufferError(f"DLPack: {ndim} dimensions")
    if ndim and not shape:
        raise BufferError("DLPack: there is no shape")
    lengths = _int64s(shape, ndim)
    if any(length < 0 for length in lengths):
        raise BufferError(f"DLPack: negative shape {lengths}")
    if strides:
        steps = _int64s(strides, ndim)
        if any(step < 0 for step in steps):
            raise BufferError(f"DLPack: negative strides {steps}")
        if not _is_packed(lengths, steps, 1):
            raise BufferError(
                f"DLPack: not contiguous: shape {lengths}, strides {steps}"
            )
    return prod(lengths)


def _int64s(address: int, count: int) -> list[int]:
    return ffi.unpack(ffi.cast("int64_t *", address), count) if count else []


def _is_packed(shape: Any, strides: Any, itemsize: int) -> bool:
    """Whether elements follow each other in C or in Fortran order."""
    if len(shape) != len(strides):
        raise ValueError(f"shape {shape} and strides {strides} differ in length")
    pairs = list(zip(shape, strides, strict=True))
    for order in (reversed(pairs), iter(pairs)):
        step = itemsize
        for length, stride in order:
            if length > 1 and stride != step:
                break
            step *= length
        else:
            return True
    return False


_LONG_DOUBLE = 8 * ffi.sizeof("long double")
_TENSOR_FORMATS = {
    (_FLOAT, _LONG_DOUBLE): "g",
    (_COMPLEX, 2 * _LONG_DOUBLE): "Zg",
    (_BOOL, 8): "?",
    **{(_INT, 8 * struct.calcsize(code)): code for code in "qlihb"},
    **{(_UINT, 8 * struct.calcsize(code)): code for code in "QLIHB"},
    **{(_FLOAT, 8 * struct.calcsize(code)): code for code in "edf"},
    (_BFLOAT, 16): "bfloat16",
    (_COMPLEX, 64): "Zf",
    (_COMPLEX, 128): "Zd",
}


def _tensor_format(code: int, bits: int, lanes: int) -> tuple[str, int]:
    """Format and size of an element; bytes if the type is not a known one."""
    if lanes == 2 and code == _FLOAT:
        code, bits, lanes = _COMPLEX, 2 * bits, 1
    form = _TENSOR_FORMATS.get((code, bits)) if lanes == 1 else None
    return ("B", 1) if form is None else (form, bits // 8)


# ---------------------------------------------- __cuda_array_interface__, numpy's

_NATIVE, _SWAPPED = ("<", ">") if sys.byteorder == "little" else (">", "<")
_INTERFACE_KINDS = {"b": _BOOL, "i": _INT, "u": _UINT, "f": _FLOAT, "c": _COMPLEX}


def _from_interface(thing: Any, name: str, interface: Any) -> Region:
    if not isinstance(interface, dict):
        raise TypeError(f"{name} is a {type(interface).__name__}, not a dict")
    on_device = name == "__cuda_array_interface__"
    if on_device:
        _require_no_driver(_CUDA)
    data, typestr = interface["data"], interface["typestr"]
    shape, strides = interface["shape"], interface.get("strides")
    form, itemsize = _interface_format(name, typestr)
    count = prod(shape)
    if interface.get("mask") is not None:
        raise BufferError(f"{name}: the array is masked")
    if any(length < 0 for length in shape):
        raise BufferError(f"{name}: negative shape {shape}")
    if strides is not None and not _is_packed(shape, strides, itemsize):
        raise BufferError(
            f"{name}: not contiguous: shape {shape}, strides {strides} bytes"
        )
    descr = interface.get("descr")
    if descr is not None and (len(descr) != 1 or descr[0] != ("", typestr)):
        warnings.warn(f"{name}: ignoring 'descr'", RuntimeWarning, stacklevel=2)
    address, readonly = data
    if address is None and count == 0:
        address = 0
    unit = 1 if form == "B" else itemsize
    return Region(
        index(address), count * itemsize, form, unit, bool(readonly), thing, on_device
    )


def _interface_format(name: str, typestr: Any) -> tuple[str, int]:
    """Format and size of an element in bytes; the format "B" means raw bytes."""
    order, kind, itemsize = typestr[0:1], typestr[1:2], int(typestr[2:])
    if order not in ("<", ">", "|"):
        raise BufferError(f"{name}: typestr {typestr!r} has an unknown byte order")
    if itemsize < 0:
        raise BufferError(f"{name}: typestr {typestr!r} has a negative size")
    code = _TENSOR_FORMATS.get((_INTERFACE_KINDS.get(kind, -1), 8 * itemsize), "B")
    return (order + code if order == _SWAPPED and itemsize > 1 else code), itemsize
