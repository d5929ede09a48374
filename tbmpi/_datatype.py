# SPDX-License-Identifier: MIT
"""MPI.Datatype: predefined and derived datatypes, and Python's codes for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from operator import index
from typing import Any, Self

from tbmpi._ffi import check, ffi, lib, text
from tbmpi._handle import Handle


class Datatype(Handle):
    """How the elements of a message lie in memory.

    Counts, block lengths and strides are in elements of the old type, those of
    the h-variants, bounds and extents in bytes. A new type must be committed
    before a message uses it. Errors raise MPI.Exception.
    """

    __slots__ = ()
    _ctype = "MPI_Datatype"
    _null = lib.MPI_DATATYPE_NULL

    def _make(self, function: Any, *args: Any) -> Self:
        out = ffi.new("MPI_Datatype *")
        check(function(*args, out))
        return type(self)._of(out[0])

    # ------------------------------------------------------------ inquiries

    def Get_size(self) -> int:
        """Bytes of data in one element, gaps left out."""
        out = ffi.new("MPI_Count *")
        check(lib.MPI_Type_size_c(self._h, out))
        return out[0]

    def Get_extent(self) -> tuple[int, int]:
        """Lower bound and extent: the distance of consecutive elements, in bytes."""
        low, extent = ffi.new("MPI_Count *"), ffi.new("MPI_Count *")
        check(lib.MPI_Type_get_extent_c(self._h, low, extent))
        return low[0], extent[0]

    def Get_true_extent(self) -> tuple[int, int]:
        """Lower bound and extent of the data itself, in bytes."""
        low, extent = ffi.new("MPI_Count *"), ffi.new("MPI_Count *")
        check(lib.MPI_Type_get_true_extent_c(self._h, low, extent))
        return low[0], extent[0]

    def Get_name(self) -> str:
        """The type's name."""
        out = ffi.new("char[]", lib.MPI_MAX_OBJECT_NAME + 1)
        length = ffi.new("int *")
        check(lib.MPI_Type_get_name(self._h, out, length))
        return text(out, length[0])

    def Set_name(self, name: str) -> None:
        """Names the type for debuggers and messages."""
        check(lib.MPI_Type_set_name(self._h, name.encode()))

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """How many ints, addresses, large counts and types made it, and by what.

        The last is one of the ``MPI.COMBINER_`` constants.
        """
        numbers = [ffi.new("MPI_Count *") for _ in range(4)]
        combiner = ffi.new("int *")
        check(lib.MPI_Type_get_envelope_c(self._h, *numbers, combiner))
        ints, addresses, counts, types = (number[0] for number in numbers)
        return ints, addresses, counts, types, combiner[0]

    # --------------------------------------------------------- constructors

    def Dup(self) -> Self:
        """A copy, committed if this one is."""
        return self._make(lib.MPI_Type_dup, self._h)

    Create_dup = Dup

    def Create_contiguous(self, count: int) -> Self:
        """`count` elements in a row."""
        return self._make(lib.MPI_Type_contiguous_c, count, self._h)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        """`count` blocks of `blocklength` elements, their starts `stride` apart."""
        return self._make(lib.MPI_Type_vector_c, count, blocklength, stride, self._h)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        """As Create_vector, with the stride in bytes."""
        make = lib.MPI_Type_create_hvector_c
        return self._make(make, count, blocklength, stride, self._h)

    def Create_indexed(
        self, blocklengths: Sequence[int], displacements: Sequence[int]
    ) -> Self:
        """Blocks of several lengths at displacements in elements."""
        lengths, places = _counts(blocklengths), _counts(displacements)
        _same_length(lengths, places)
        return self._make(
            lib.MPI_Type_indexed_c, len(lengths), lengths, places, self._h
        )

    def Create_hindexed(
        self, blocklengths: Sequence[int], displacements: Sequence[int]
    ) -> Self:
        """As Create_indexed, with displacements in bytes."""
        lengths, places = _counts(blocklengths), _counts(displacements)
        _same_length(lengths, places)
        make = lib.MPI_Type_create_hindexed_c
        return self._make(make, len(lengths), lengths, places, self._h)

    def Create_indexed_block(
        self, blocklength: int, displacements: Sequence[int]
    ) -> Self:
        """Blocks of one length at displacements in elements."""
        places = _counts(displacements)
        make = lib.MPI_Type_create_indexed_block_c
        return self._make(make, len(places), blocklength, places, self._h)

    def Create_hindexed_block(
        self, blocklength: int, displacements: Sequence[int]
    ) -> Self:
        """As Create_indexed_block, with displacements in bytes."""
        places = _counts(displacements)
        make = lib.MPI_Type_create_hindexed_block_c
        return self._make(make, len(places), blocklength, places, self._h)

    @classmethod
    def Create_struct(
        cls,
        blocklengths: Sequence[int],
        displacements: Sequence[int],
        datatypes: Sequence[Datatype],
    ) -> Self:
        """Blocks of several types at displacements in bytes."""
        lengths, places = _counts(blocklengths), _counts(displacements)
        types = ffi.new("MPI_Datatype[]", [datatype._h for datatype in datatypes])
        _same_length(lengths, places)
        _same_length(lengths, types)
        out = ffi.new("MPI_Datatype *")
        check(lib.MPI_Type_create_struct_c(len(lengths), lengths, places, types, out))
        return cls._of(out[0])

    def Create_subarray(
        self,
        sizes: Sequence[int],
        subsizes: Sequence[int],
        starts: Sequence[int],
        order: int = lib.MPI_ORDER_C,
    ) -> Self:
        """A block of an array: its shape `sizes`, the block's shape and corner."""
        shape, block, corner = _counts(sizes), _counts(subsizes), _counts(starts)
        _same_length(shape, block)
        _same_length(shape, corner)
        make = lib.MPI_Type_create_subarray_c
        return self._make(make, len(shape), shape, block, corner, order, self._h)

    def Create_resized(self, lb: int, extent: int) -> Self:
        """The same data with another lower bound and extent, in bytes."""
        return self._make(lib.MPI_Type_create_resized_c, self._h, lb, extent)

    Resized = Create_resized

    # ----------------------------------------------------------------- life

    def Commit(self) -> Self:
        """Makes the type ready for messages; returns it."""
        check(lib.MPI_Type_commit(ffi.new("MPI_Datatype *", self._h)))
        return self

    def Free(self) -> None:
        """Frees the type; messages under way still finish with it."""
        self._free_with(lib.MPI_Type_free)

    # ------------------------------------------------------------- packing

    def Pack(self, inbuf: Any, outbuf: Any, position: int, comm: Any) -> int:
        """Packs `inbuf` into `outbuf` from byte `position`; the new position.

        `inbuf` is in elements of this type. Both are buffers in memory order.
        """
        source, count, target, size = self._packing(inbuf, outbuf, packing=True)
        place = ffi.new("MPI_Count *", position)
        check(lib.MPI_Pack_c(source, count, self._h, target, size, place, comm._h))
        return place[0]

    def Unpack(self, inbuf: Any, position: int, outbuf: Any, comm: Any) -> int:
        """Unpacks from byte `position` of `inbuf` into `outbuf`; the new position."""
        target, count, source, size = self._packing(outbuf, inbuf, packing=False)
        place = ffi.new("MPI_Count *", position)
        check(lib.MPI_Unpack_c(source, size, place, target, count, self._h, comm._h))
        return place[0]

    def Pack_size(self, count: int, comm: Any) -> int:
        """Bytes that Pack needs for `count` elements, at most."""
        out = ffi.new("MPI_Count *")
        check(lib.MPI_Pack_size_c(count, self._h, comm._h, out))
        return out[0]

    def _packing(self, elements: Any, packed: Any, packing: bool) -> tuple[Any, ...]:
        """Address and count of the elements, address and size of the packed bytes."""
        from tbmpi.buffers import memory

        values = memory(elements, writable=not packing)
        raw = memory(packed, writable=packing)
        low, extent = self.Get_extent()
        if extent <= 0:
            raise ValueError(
                f"cannot infer a count: the extent is {extent} (lower bound {low})"
            )
        return values, len(values) // extent, raw, len(raw)

    # --------------------------------------------------------------- codes

    def tocode(self) -> str:
        """numpy's type string, such as ``"f8"``. ValueError if there is none."""
        for code, datatype in CODES.items():
            if datatype == self and code[-1].isdigit() and code[0] in "biufc":
                return code
        raise ValueError(f"no numpy type code for {self!r}")

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """The datatype of a type code, ``"d"`` or ``"f8"``. ValueError if none."""
        if code not in CODES:
            raise ValueError(f"cannot map code {code!r} to an MPI datatype")
        return CODES[code]

    size = property(Get_size, doc="Bytes of data in one element.")
    name = property(Get_name, Set_name, doc="The type's name.")
    envelope = property(Get_envelope, doc="See Get_envelope.")

    @property
    def extent(self) -> int:
        """Distance of consecutive elements in bytes."""
        return self.Get_extent()[1]

    @property
    def lb(self) -> int:
        """Lower bound in bytes."""
        return self.Get_extent()[0]

    @property
    def ub(self) -> int:
        """Upper bound in bytes."""
        return sum(self.Get_extent())

    @property
    def true_extent(self) -> int:
        """Extent of the data itself in bytes."""
        return self.Get_true_extent()[1]

    @property
    def true_lb(self) -> int:
        """Lower bound of the data itself in bytes."""
        return self.Get_true_extent()[0]

    @property
    def true_ub(self) -> int:
        """Upper bound of the data itself in bytes."""
        return sum(self.Get_true_extent())

    @property
    def combiner(self) -> int:
        """The ``MPI.COMBINER_`` constant of the constructor."""
        return self.Get_envelope()[-1]

    @property
    def is_named(self) -> bool:
        """Whether the type is one of the predefined ones."""
        return self.combiner == lib.MPI_COMBINER_NAMED

    @property
    def is_predefined(self) -> bool:
        """Whether the type must not be freed: predefined, or null."""
        return not self or self.is_named


Datatype._family = Datatype


def _counts(values: Sequence[int]) -> Any:
    return ffi.new("MPI_Count[]", [index(value) for value in values])


def _same_length(first: Any, second: Any) -> None:
    if len(first) != len(second):
        raise ValueError(
            f"sequences of different lengths: {len(first)} and {len(second)}"
        )


# ------------------------------------------------------------ Python's codes

BYTE = Datatype._of(lib.MPI_BYTE)

# 16-bit floats are tbmpi's extension (tbmpi.h), and the library says whose it is.
FLOAT16_HANDLE, BFLOAT16_HANDLE = 0x24E, 0x24F


def _extension(handle: int) -> Datatype:
    out = ffi.new("char[]", lib.MPI_MAX_LIBRARY_VERSION_STRING + 1)
    check(lib.MPI_Get_library_version(out, ffi.new("int *")))
    return Datatype.fromhandle(handle) if text(out).startswith("tbmpi ") else Datatype()


FLOAT16_T = _extension(FLOAT16_HANDLE)
BFLOAT16_T = _extension(BFLOAT16_HANDLE)

_BY_CODE = {
    "?": lib.MPI_C_BOOL,
    "c": lib.MPI_CHAR,
    "b": lib.MPI_SIGNED_CHAR,
    "h": lib.MPI_SHORT,
    "i": lib.MPI_INT,
    "l": lib.MPI_LONG,
    "q": lib.MPI_LONG_LONG,
    "n": lib.MPI_AINT,
    "B": lib.MPI_UNSIGNED_CHAR,
    "H": lib.MPI_UNSIGNED_SHORT,
    "I": lib.MPI_UNSIGNED,
    "L": lib.MPI_UNSIGNED_LONG,
    "Q": lib.MPI_UNSIGNED_LONG_LONG,
    "N": lib.MPI_UNSIGNED_LONG,
    "P": lib.MPI_UNSIGNED_LONG,
    "f": lib.MPI_FLOAT,
    "d": lib.MPI_DOUBLE,
    "g": lib.MPI_LONG_DOUBLE,
    "Zf": lib.MPI_C_FLOAT_COMPLEX,
    "Zd": lib.MPI_C_DOUBLE_COMPLEX,
    "Zg": lib.MPI_C_LONG_DOUBLE_COMPLEX,
    "F": lib.MPI_C_FLOAT_COMPLEX,
    "D": lib.MPI_C_DOUBLE_COMPLEX,
    "G": lib.MPI_C_LONG_DOUBLE_COMPLEX,
    "b1": lib.MPI_C_BOOL,
    "S1": lib.MPI_CHAR,
    "i1": lib.MPI_INT8_T,
    "i2": lib.MPI_INT16_T,
    "i4": lib.MPI_INT32_T,
    "i8": lib.MPI_INT64_T,
    "u1": lib.MPI_UINT8_T,
    "u2": lib.MPI_UINT16_T,
    "u4": lib.MPI_UINT32_T,
    "u8": lib.MPI_UINT64_T,
    "f4": lib.MPI_FLOAT,
    "f8": lib.MPI_DOUBLE,
    "c8": lib.MPI_C_FLOAT_COMPLEX,
    "c16": lib.MPI_C_DOUBLE_COMPLEX,
}

# The codes of struct, of the buffer protocol and of numpy.
CODES: dict[str, Datatype] = {
    code: Datatype._of(handle) for code, handle in _BY_CODE.items()
}
if FLOAT16_T:
    CODES |= {"e": FLOAT16_T, "f2": FLOAT16_T, "bfloat16": BFLOAT16_T}

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


def of_format(form: str, itemsize: int) -> Datatype:
    """The datatype of a buffer's format. ValueError names what cannot be sent."""
    native = "<" if struct.pack("=h", 1)[0] else ">"
    plain = form[1:] if form[:1] in ("@", "=", native) else form
    datatype = CODES.get(plain)
    if datatype is None:
        raise ValueError(
            f"no MPI datatype for a buffer of format {form!r}; give one: "
            "[buffer, count, datatype]"
        )
    if datatype.Get_size() != itemsize:
        # "=l" has four bytes wherever C's long has eight.
        sized = ("u" if plain.isupper() else "i") + str(itemsize)
        if plain not in "lLqQ" or sized not in CODES:
            raise ValueError(
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
