# SPDX-License-Identifier: MIT
"""The predefined datatypes, and Python's codes for them.

A code is a character of the struct module, of the buffer protocol or of numpy
("d", "Zd"), or numpy's type string ("f8"). What a datatype's own code is follows
from its kind and size in bytes.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, NamedTuple

from tbmpi import _fast
from tbmpi._datatype import Datatype
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._handle import remember

# The standard's names (MPI_ and the name in C), by how their codes are found:
# a character of their own, or a kind (b i u f c) that goes by the size.
_CHARACTERS = {
    "B": "PACKED BYTE UNSIGNED_CHAR",
    "p": "AINT OFFSET COUNT",
    "c": "CHAR CHARACTER",
    "U": "WCHAR",
    "b": "SIGNED_CHAR",
    "h": "SHORT",
    "i": "INT",
    "l": "LONG",
    "q": "LONG_LONG",
    "H": "UNSIGNED_SHORT",
    "I": "UNSIGNED",
    "L": "UNSIGNED_LONG",
    "Q": "UNSIGNED_LONG_LONG",
    "f": "FLOAT",
    "d": "DOUBLE",
    "g": "LONG_DOUBLE",
    "?": "C_BOOL CXX_BOOL",
    "F": "C_FLOAT_COMPLEX CXX_FLOAT_COMPLEX",
    "D": "C_DOUBLE_COMPLEX CXX_DOUBLE_COMPLEX",
    "G": "C_LONG_DOUBLE_COMPLEX CXX_LONG_DOUBLE_COMPLEX",
}
_BY_SIZE = {
    "i": "INT8_T INT16_T INT32_T INT64_T INTEGER INTEGER1 INTEGER2 INTEGER4 INTEGER8"
    " INTEGER16",
    "u": "UINT8_T UINT16_T UINT32_T UINT64_T",
    "b": "LOGICAL LOGICAL1 LOGICAL2 LOGICAL4 LOGICAL8 LOGICAL16",
    "f": "REAL DOUBLE_PRECISION REAL2 REAL4 REAL8 REAL16",
    "c": "COMPLEX DOUBLE_COMPLEX COMPLEX4 COMPLEX8 COMPLEX16 COMPLEX32",
}
_WITHOUT = (
    "DATATYPE_NULL SHORT_INT TWOINT LONG_INT FLOAT_INT DOUBLE_INT LONG_DOUBLE_INT"
)
# mpi4py's other names of the same objects.
_ALIASES = {
    "INT_INT": "TWOINT",
    "C_COMPLEX": "C_FLOAT_COMPLEX",
    "FLOAT32_T": "FLOAT",
    "FLOAT64_T": "DOUBLE",
    "UNSIGNED_INT": "UNSIGNED",
    "SIGNED_SHORT": "SHORT",
    "SIGNED_INT": "INT",
    "SIGNED_LONG": "LONG",
    "SIGNED_LONG_LONG": "LONG_LONG",
    "BOOL": "C_BOOL",
    "SINT8_T": "INT8_T",
    "SINT16_T": "INT16_T",
    "SINT32_T": "INT32_T",
    "SINT64_T": "INT64_T",
    "F_BOOL": "LOGICAL",
    "F_INT": "INTEGER",
    "F_FLOAT": "REAL",
    "F_DOUBLE": "DOUBLE_PRECISION",
    "F_COMPLEX": "COMPLEX",
    "F_FLOAT_COMPLEX": "COMPLEX",
    "F_DOUBLE_COMPLEX": "DOUBLE_COMPLEX",
}
# 16-bit floats are tbmpi's extension (tbmpi.h), and the library says whose it is.
_EXTENSIONS = {"FLOAT16_T": 0x24E, "BFLOAT16_T": 0x24F}


def _extension(handle: int) -> Datatype:
    out = ffi.new("char[]", lib.MPI_MAX_LIBRARY_VERSION_STRING + 1)
    check(lib.MPI_Get_library_version(out, ffi.new("int *")))
    return Datatype.fromhandle(handle) if text(out).startswith("tbmpi ") else NULL


def _named() -> dict[str, Datatype]:
    found = {}
    for names in (_WITHOUT, *_CHARACTERS.values(), *_BY_SIZE.values()):
        for name in names.split():
            handle = getattr(lib, "MPI_" + name.replace("TWOINT", "2INT"))
            found[name] = remember(Datatype._of(handle), name)
    return found


# All predefined datatypes by their name in module MPI.
NAMED: dict[str, Datatype] = _named()
NULL = NAMED["DATATYPE_NULL"]
NAMED |= {
    name: remember(_extension(handle), name) for name, handle in _EXTENSIONS.items()
}
NAMED |= {name: NAMED[other] for name, other in _ALIASES.items()}
BYTE = NAMED["BYTE"]
FLOAT16, BFLOAT16 = NAMED["FLOAT16_T"], NAMED["BFLOAT16_T"]

# ------------------------------------------------------- from codes to datatypes

_LONG_DOUBLE = ffi.sizeof("long double")


def _codes() -> dict[str, Datatype]:
    """Every code that is understood."""
    by_character = {
        "?": "C_BOOL", "b": "SIGNED_CHAR", "h": "SHORT", "i": "INT", "l": "LONG",
        "q": "LONG_LONG", "B": "UNSIGNED_CHAR", "H": "UNSIGNED_SHORT",
        "I": "UNSIGNED", "L": "UNSIGNED_LONG", "Q": "UNSIGNED_LONG_LONG",
        "f": "FLOAT", "d": "DOUBLE", "g": "LONG_DOUBLE", "E": "COMPLEX4",
        "F": "C_FLOAT_COMPLEX", "D": "C_DOUBLE_COMPLEX",
        "G": "C_LONG_DOUBLE_COMPLEX", "n": "COUNT", "N": "UNSIGNED_LONG",
        "p": "AINT", "P": "UNSIGNED_LONG", "c": "CHAR", "a": "CHAR", "S": "CHAR",
        "S1": "CHAR", "s": "CHAR", "1s": "CHAR", "U": "WCHAR", "U1": "WCHAR",
        "u": "UINT16_T", "1u": "UINT16_T", "w": "WCHAR", "1w": "WCHAR",
        "M": "INT64_T", "M8": "INT64_T", "m": "INT64_T", "m8": "INT64_T",
    }  # fmt: skip
    by_string = {
        "b1": "C_BOOL", "i1": "INT8_T", "i2": "INT16_T", "i4": "INT32_T",
        "i8": "INT64_T", "i16": "INTEGER16", "u1": "UINT8_T", "u2": "UINT16_T",
        "u4": "UINT32_T", "u8": "UINT64_T", "f4": "FLOAT", "f8": "DOUBLE",
        "f16": "REAL16", "c4": "COMPLEX4", "c8": "C_FLOAT_COMPLEX",
        "c16": "C_DOUBLE_COMPLEX", "c32": "COMPLEX32",
    }  # fmt: skip
    if _LONG_DOUBLE > 8:
        by_string[f"f{_LONG_DOUBLE}"] = "LONG_DOUBLE"
        by_string[f"c{2 * _LONG_DOUBLE}"] = "C_LONG_DOUBLE_COMPLEX"
    names = by_character | by_string
    names |= {f"Z{form.lower()}": names[form] for form in "EFDG"}
    names["Zf"], names["Zd"] = names["F"], names["D"]
    names["e"] = names["f2"] = "FLOAT16_T" if FLOAT16 else "REAL2"
    if BFLOAT16:
        names["bfloat16"] = "BFLOAT16_T"
    return {code: NAMED[name] for code, name in names.items()}


CODES: dict[str, Datatype] = _codes()

# The codes of the types of C and of Fortran alone, under mpi4py's private names.
C_CODES = {
    code: CODES[code]
    for code in [
        *("?", "b", "h", "i", "l", "q", "B", "H", "I", "L", "Q"),
        *("f", "d", "g", "F", "D", "G", "b1", "i1", "i2", "i4", "i8"),
        *("u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"),
    ]
}
F_CODES = {
    code: NAMED[name]
    for code, name in {
        "l": "LOGICAL", "i": "INTEGER", "r": "REAL", "s": "REAL",
        "d": "DOUBLE_PRECISION", "c": "COMPLEX", "z": "DOUBLE_COMPLEX",
        **{f"l{n}": f"LOGICAL{n}" for n in (1, 2, 4, 8, 16)},
        **{f"i{n}": f"INTEGER{n}" for n in (1, 2, 4, 8, 16)},
        **{f"r{n}": f"REAL{n}" for n in (2, 4, 8, 16)},
        **{f"c{n}": f"COMPLEX{n}" for n in (4, 8, 16, 32)},
    }.items()
}  # fmt: skip

_SIZES = {"Zf": 8, "Zd": 16, "e": 2, "bfloat16": 2}


def _plain_formats() -> dict[str, tuple[Any, int]]:
    """Handle and size in bytes by the format of a buffer, for the quick way."""
    found = {}
    for code, datatype in CODES.items():
        if code in _SIZES:
            found[code] = (datatype._h, _SIZES[code])
        elif len(code) == 1 and code in "?cbhilqnBHILQNPfd":
            found[code] = (datatype._h, struct.calcsize(code))
    return found


FORMATS = _plain_formats()
_fast.tell(
    "formats",
    {
        form: (int(ffi.cast("intptr_t", handle)), size)
        for form, (handle, size) in FORMATS.items()
    },
)


def of_format(form: str, itemsize: int) -> Datatype:
    """The datatype of a buffer's format.

    BufferError if its byte order is not this machine's, KeyError if there is no
    datatype for it.
    """
    order, swapped = form[:1], ">" if sys.byteorder == "little" else "<"
    if order == swapped and itemsize > 1:
        raise BufferError(
            f"format {form!r}: the byte order is not this machine's; swap the bytes, "
            "or give a datatype: [buffer, count, datatype]"
        )
    plain = form[1:] if order and order in "@=<>" else form
    datatype = CODES.get(plain)
    if datatype is None:
        raise KeyError(
            f"no MPI datatype for a buffer of format {form!r}; give one: [buffer, "
            "count, datatype], for numpy's structured arrays tbmpi.datatype(dtype)"
        )
    if datatype.Get_size() != itemsize:
        # "=l" has four bytes wherever C's long has eight.
        sized = ("u" if plain.isupper() else "i") + str(itemsize)
        if plain not in "lLqQ" or sized not in CODES:
            raise KeyError(
                f"format {form!r} with items of {itemsize} bytes is not known"
            )
        datatype = CODES[sized]
    return datatype


def as_datatype(kind: Any) -> Datatype:
    """A datatype or a type code as Datatype."""
    if isinstance(kind, Datatype):
        return kind
    try:
        return CODES[kind]
    except (KeyError, TypeError):
        raise KeyError(f"cannot map {kind!r} to an MPI datatype") from None


# ------------------------------------------------------- from datatypes to codes

_SIGNED = {struct.calcsize(code): code for code in "qlihb"}
_FLOATS = {_LONG_DOUBLE: "g", 8: "d", 4: "f", 2: "e"}
_UNSIGNED = {size: code.upper() for size, code in _SIGNED.items()}
_COMPLEX = {2 * _LONG_DOUBLE: "G", 16: "D", 8: "F", 4: "E"}
_BOOLS = {**_SIGNED, 1: "?"}
_OF_KIND = {
    "b": _BOOLS, "i": _SIGNED, "u": _UNSIGNED, "f": _FLOATS, "c": _COMPLEX,
}  # fmt: skip
_STRINGS = {
    **{code: f"i{size}" for size, code in _SIGNED.items()},
    **{code: f"u{size}" for size, code in _UNSIGNED.items()},
    **{code: f"f{size}" for size, code in _FLOATS.items()},
    **{code: f"c{size}" for size, code in _COMPLEX.items()},
    **{code: f"{'u' if code.isupper() else 'i'}{struct.calcsize(code)}"
       for code in "bhilqBHILQ"},
    "?": "b1", "p": "i8", "P": "u8", "c": "S1", "U": "U1",
}  # fmt: skip


class Codes(NamedTuple):
    """Character and type string of a datatype, and the one that names it best.

    They are empty where there is none.
    """

    character: str = ""
    string: str = ""
    best: str = ""


NONE = Codes()
_KNOWN = {
    NAMED[name].handle: Codes(character, _STRINGS[character], character)
    for character, names in _CHARACTERS.items()
    for name in names.split()
} | {NAMED[name].handle: NONE for name in _WITHOUT.split()}
if FLOAT16:
    _KNOWN[FLOAT16.handle] = Codes("e", "f2", "f2")
    _KNOWN[BFLOAT16.handle] = NONE
_KINDS = {
    NAMED[name].handle: kind
    for kind, names in _BY_SIZE.items()
    for name in names.split()
}
_F90 = {
    lib.MPI_COMBINER_F90_INTEGER: "i",
    lib.MPI_COMBINER_F90_REAL: "f",
    lib.MPI_COMBINER_F90_COMPLEX: "c",
}


def codes_of(datatype: Datatype) -> Codes:
    """The codes of a datatype; of a duplicate, those of the original."""
    handle = datatype.handle
    known = _KNOWN.get(handle)
    if known is not None:
        return known
    if handle in _KINDS:
        _KNOWN[handle] = _codes_by_size(_KINDS[handle], datatype)
        return _KNOWN[handle]
    combiner = datatype.Get_envelope()[-1]
    if combiner == lib.MPI_COMBINER_DUP:
        return _codes_of_original(datatype)
    kind = _F90.get(combiner)
    return _codes_by_size(kind, datatype) if kind else NONE


def _codes_by_size(kind: str, datatype: Datatype) -> Codes:
    size = datatype.Get_size()
    string = f"i{size}" if kind == "b" and size > 1 else f"{kind}{size}"
    return Codes(_OF_KIND[kind].get(size, ""), string, string)


def _codes_of_original(datatype: Datatype) -> Codes:
    (original,) = datatype.Get_contents()[-1]
    try:
        return codes_of(original)
    finally:
        if not original.is_predefined:
            original.Free()


_C_TYPES = {
    "?": "char", "b": "char", "c": "char", "B": "char", "h": "short", "H": "short",
    "i": "int", "I": "int", "l": "long", "L": "long", "q": "long long",
    "Q": "long long", "p": "void *", "U": "wchar_t", "e": "short", "f": "float",
    "d": "double", "g": "long double", "E": "short", "F": "float", "D": "double",
    "G": "long double",
}  # fmt: skip
_ALIGNMENTS = {code: ffi.alignof(name) for code, name in _C_TYPES.items()}
_OF_16_BYTES = ("LOGICAL16", "INTEGER16", "REAL16", "COMPLEX32")
_ALIGNED = {NAMED[name].handle: 16 for name in _OF_16_BYTES} | {
    NAMED[f"{value}_INT"].handle: max(_ALIGNMENTS[code], _ALIGNMENTS["i"])
    for value, code in {
        "SHORT": "h", "INT": "i", "LONG": "l", "FLOAT": "f", "DOUBLE": "d",
        "LONG_DOUBLE": "g",
    }.items()
}  # fmt: skip


def _typealign(datatype: Datatype) -> int | None:
    """In how many bytes' steps the datatype lies in C's structures; None if unknown."""
    known = _ALIGNED.get(datatype.handle)
    if known is not None:
        return known
    return _ALIGNMENTS.get(codes_of(datatype).character)


def _typecode(datatype: Datatype) -> str | None:
    """As Datatype.tocode(), None if there is no code."""
    return codes_of(datatype).best or None
