# SPDX-License-Identifier: MIT
"""MPI.Datatype: predefined and derived datatypes.

Python's codes for them are in _typecodes, how one was made is read in _typedecode.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_int
from typing import TYPE_CHECKING, Any, Self

from tbmpi import _fast
from tbmpi._attributes import Attributes
from tbmpi._ffi import check, ffi, lib, text
from tbmpi._handle import Handle, predefined

if TYPE_CHECKING:
    from tbmpi._comm import Comm

_PREDEFINED = (
    lib.MPI_COMBINER_NAMED,
    lib.MPI_COMBINER_VALUE_INDEX,
    lib.MPI_COMBINER_F90_INTEGER,
    lib.MPI_COMBINER_F90_REAL,
    lib.MPI_COMBINER_F90_COMPLEX,
)


class Datatype(Attributes, Handle):
    """How the elements of a message lie in memory.

    Counts, block lengths and strides are in elements of the old type, those of
    the h-variants, bounds and extents in bytes. A new type must be committed
    before a message uses it. Errors raise MPI.Exception.
    """

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Datatype"
    _null = lib.MPI_DATATYPE_NULL

    def __reduce__(self) -> Any:
        if predefined(Datatype, self._h) is not None:
            return super().__reduce__()
        from tbmpi import _typedecode

        return _typedecode.rebuild, (type(self), _typedecode.recipe(self))

    @classmethod
    def _make(cls, function: Any, *args: Any) -> Self:
        out = ffi.new("MPI_Datatype *")
        check(function(*args, out))
        return cls._of(out[0])

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

        The last is one of the MPI.COMBINER_ constants.
        """
        numbers = [ffi.new("MPI_Count *") for _ in range(4)]
        combiner = ffi.new("int *")
        check(lib.MPI_Type_get_envelope_c(self._h, *numbers, combiner))
        ints, addresses, counts, types = (number[0] for number in numbers)
        return ints, addresses, counts, types, combiner[0]

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """The ints, addresses, large counts and types that made it.

        The types are to be freed unless they are predefined. decode() tells what
        the numbers mean. MPI.Exception for a predefined type.
        """
        sizes = self.Get_envelope()[:4]
        kinds = ("int", "MPI_Aint", "MPI_Count", "MPI_Datatype")
        lists = [
            ffi.new(f"{kind}[]", size or 1)
            for kind, size in zip(kinds, sizes, strict=True)
        ]
        check(lib.MPI_Type_get_contents_c(self._h, *sizes, *lists))
        ints, addresses, counts, types = (
            list(values[0:size]) for values, size in zip(lists, sizes, strict=True)
        )
        made = [predefined(Datatype, one) or Datatype._of(one) for one in types]
        return ints, addresses, counts, made

    def decode(self) -> tuple[Datatype, str, dict[str, Any]]:
        """How it was made: the old type, the constructor's name, its arguments.

        ``getattr(old, "Create_" + name.lower())(**arguments)`` makes it again;
        ("NAMED", {}) for a predefined type. Types in the result are to be freed
        unless they are predefined.
        """
        from tbmpi import _typedecode

        return _typedecode.decode(self)

    # --------------------------------------------------------- constructors

    def Dup(self) -> Self:
        """A copy, committed if this one is, with those attributes that copy."""
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
        make = lib.MPI_Type_indexed_c
        return self._make(make, len(lengths), lengths, places, self._h)

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
        make = lib.MPI_Type_create_struct_c
        return cls._make(make, len(lengths), lengths, places, types)

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

    def Create_darray(
        self,
        size: int,
        rank: int,
        gsizes: Sequence[int],
        distribs: Sequence[int],
        dargs: Sequence[int],
        psizes: Sequence[int],
        order: int = lib.MPI_ORDER_C,
    ) -> Self:
        """The part of rank `rank` of `size` of an array of shape `gsizes`.

        For each dimension: an MPI.DISTRIBUTE_ constant, its argument (a block
        size or MPI.DISTRIBUTE_DFLT_DARG) and the number of ranks.
        """
        shape = _counts(gsizes)
        lists = [ffi.new("int[]", [*map(as_int, one)]) for one in (distribs, dargs)]
        lists.append(ffi.new("int[]", [*map(as_int, psizes)]))
        for one in lists:
            _same_length(shape, one)
        make = lib.MPI_Type_create_darray_c
        return self._make(make, size, rank, len(shape), shape, *lists, order, self._h)

    def Create_resized(self, lb: int, extent: int) -> Self:
        """The same data with another lower bound and extent, in bytes."""
        return self._make(lib.MPI_Type_create_resized_c, self._h, lb, extent)

    Resized = Create_resized

    # ---------------------------------------------------- predefined by wish

    @classmethod
    def Get_value_index(cls, value: Datatype, index: Datatype) -> Self:
        """The type of pairs for MPI.MAXLOC; MPI.DATATYPE_NULL if there is none."""
        return cls._make(lib.MPI_Type_get_value_index, value._h, index._h)

    @classmethod
    def Create_f90_integer(cls, r: int) -> Self:
        """Fortran's integer with `r` decimal digits; predefined, not to be freed."""
        return cls._make(lib.MPI_Type_create_f90_integer, r)

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Self:
        """Fortran's real with `p` digits and exponents to `r`, in decimal."""
        return cls._make(lib.MPI_Type_create_f90_real, p, r)

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Self:
        """Fortran's complex with `p` digits and exponents to `r`, in decimal."""
        return cls._make(lib.MPI_Type_create_f90_complex, p, r)

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Self:
        """The type of an MPI.TYPECLASS_ constant with `size` bytes."""
        return cls._make(lib.MPI_Type_match_size, typeclass, size)

    # ----------------------------------------------------------------- life

    def Commit(self) -> Self:
        """Makes the type ready for messages; returns it."""
        check(lib.MPI_Type_commit(ffi.new("MPI_Datatype *", self._h)))
        return self

    def Free(self) -> None:
        """Frees the type; messages under way still finish with it."""
        self._free_with(lib.MPI_Type_free)

    def free(self) -> None:
        """Frees the type unless it is null or predefined; it is null then."""
        if self.is_predefined:
            if not self._is_constant():
                self._h = self._null
        else:
            self.Free()

    # ------------------------------------------------------------- packing

    def Pack(self, inbuf: Any, outbuf: Any, position: int, comm: Comm) -> int:
        """Packs `inbuf` into `outbuf` from byte `position`; the new position.

        `inbuf` is in elements of this type. Both are buffers in memory order.
        """
        source, count, target, size = self._packing(inbuf, outbuf, packing=True)
        place = ffi.new("MPI_Count *", position)
        check(lib.MPI_Pack_c(source, count, self._h, target, size, place, comm._h))
        return place[0]

    def Unpack(self, inbuf: Any, position: int, outbuf: Any, comm: Comm) -> int:
        """Unpacks from byte `position` of `inbuf` into `outbuf`; the new position."""
        target, count, source, size = self._packing(outbuf, inbuf, packing=False)
        place = ffi.new("MPI_Count *", position)
        check(lib.MPI_Unpack_c(source, size, place, target, count, self._h, comm._h))
        return place[0]

    def Pack_size(self, count: int, comm: Comm) -> int:
        """Bytes that Pack needs for `count` elements, at most."""
        out = ffi.new("MPI_Count *")
        check(lib.MPI_Pack_size_c(count, self._h, comm._h, out))
        return out[0]

    def Pack_external(
        self, datarep: str, inbuf: Any, outbuf: Any, position: int
    ) -> int:
        """As Pack, in a form for all machines: `datarep` is "external32"."""
        source, count, target, size = self._packing(inbuf, outbuf, packing=True)
        place, name = ffi.new("MPI_Count *", position), datarep.encode()
        pack = lib.MPI_Pack_external_c
        check(pack(name, source, count, self._h, target, size, place))
        return place[0]

    def Unpack_external(
        self, datarep: str, inbuf: Any, position: int, outbuf: Any
    ) -> int:
        """As Unpack, from what Pack_external has packed."""
        target, count, source, size = self._packing(outbuf, inbuf, packing=False)
        place, name = ffi.new("MPI_Count *", position), datarep.encode()
        unpack = lib.MPI_Unpack_external_c
        check(unpack(name, source, size, place, target, count, self._h))
        return place[0]

    def Pack_external_size(self, datarep: str, count: int) -> int:
        """Bytes that Pack_external needs for `count` elements."""
        out = ffi.new("MPI_Count *")
        check(lib.MPI_Pack_external_size_c(datarep.encode(), count, self._h, out))
        return out[0]

    def _packing(self, elements: Any, packed: Any, packing: bool) -> tuple[Any, ...]:
        """Address and count of the elements, address and size of the packed bytes."""
        from tbmpi._memory import memory

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
        """The type's character or numpy's type string. ValueError if none."""
        from tbmpi._typecodes import codes_of

        code = codes_of(self).best
        if not code:
            raise ValueError(f"no type code for {self!r}")
        return code

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        """The predefined type of a code, "d" or "f8". ValueError if none."""
        from tbmpi._typecodes import CODES

        found = CODES.get(code)
        if not found:
            raise ValueError(f"cannot map code {code!r} to an MPI datatype")
        return found

    @property
    def typestr(self) -> str:
        """numpy's type string; "V" and the extent in bytes if there is none."""
        from tbmpi._typecodes import codes_of

        if not self:
            return ""
        return codes_of(self).string or f"V{self.extent}"

    @property
    def typechar(self) -> str:
        """numpy's character for the type; "V" if there is none."""
        from tbmpi._typecodes import codes_of

        return (codes_of(self).character or "V") if self else ""

    size = property(Get_size, doc="Bytes of data in one element.")
    name = property(Get_name, Set_name, doc="The type's name.")
    envelope = property(Get_envelope, doc="See Get_envelope.")
    contents = property(Get_contents, doc="See Get_contents.")

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
        """The MPI.COMBINER_ constant of the constructor."""
        return self.Get_envelope()[-1]

    @property
    def is_named(self) -> bool:
        """Whether the type is one that has a name in the standard."""
        return self.combiner == lib.MPI_COMBINER_NAMED

    @property
    def is_predefined(self) -> bool:
        """Whether the type must not be freed: predefined, or null."""
        return not self or self.combiner in _PREDEFINED


Datatype._family = (Datatype,)
_fast.tell("Datatype", Datatype)


def _counts(values: Sequence[int]) -> Any:
    return ffi.new("MPI_Count[]", [as_int(value) for value in values])


def _same_length(first: Any, second: Any) -> None:
    if len(first) != len(second):
        raise ValueError(
            f"sequences of different lengths: {len(first)} and {len(second)}"
        )
