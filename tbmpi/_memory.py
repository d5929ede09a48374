# SPDX-License-Identifier: MIT
"""Raw memory: its address for C, MPI.buffer, and the addresses that have names.

Memory is handed on as a cffi array of char, whose len() is its size in bytes.
That object holds the exporter's buffer: who keeps it keeps the memory.
"""

from __future__ import annotations

from gc import is_tracked
from operator import index
from typing import Any, ClassVar

from tbmpi import _fast, _foreign
from tbmpi._fast import Exporter, Pin
from tbmpi._ffi import check, ffi, lib

_from_buffer = ffi.from_buffer
_new_bytes = ffi.new_allocator(should_clear_after_alloc=False)
CHARS = ffi.typeof("char[]")
ALIGNMENT = 64  # what numpy and vector units like
_PAGE = 4096


def memory(thing: Any, writable: bool) -> Any:
    """The memory of a buffer, or of an object with an array interface.

    TypeError if it has none, BufferError if it is read-only and should not be,
    not contiguous (in C or Fortran order), or on a device.
    """
    if thing.__class__ is buffer:
        return thing._memory(writable)
    try:
        view = memoryview(thing)
    except TypeError:
        return _of_region(_region(thing), writable)
    except ValueError:
        # An item type that the buffer protocol cannot tell, such as a date.
        return held(Pin(thing, writable), writable)
    return of_view(thing, view, writable)


def described(thing: Any, writable: bool) -> tuple[Any, str, int]:
    """As memory(), and the format and size in bytes of an element."""
    if thing.__class__ is buffer:
        return thing._memory(writable), "B", 1
    try:
        view = memoryview(thing)
    except TypeError:
        place = _region(thing)
        return _of_region(place, writable), place.form, place.itemsize
    except ValueError:
        kind = getattr(thing, "dtype", None)
        if kind is None:
            raise
        return held(Pin(thing, writable), writable), str(kind), kind.itemsize
    return of_view(thing, view, writable), view.format, view.itemsize


def of_view(thing: Any, view: memoryview, writable: bool) -> Any:
    """The memory of `thing` that `view` describes, if it is as memory() says.

    What the view says is looked at, since not every exporter (MLX) looks at what
    is asked of it.
    """
    if writable and view.readonly:
        kind = type(thing).__name__
        raise BufferError(f"cannot receive into read-only memory ({kind})")
    if view.c_contiguous:
        return held(thing, writable)
    if view.f_contiguous:
        return held(Pin(thing, writable), writable)
    if view.nbytes == 0:
        return at(0, 0)
    raise BufferError(
        f"a message ({type(thing).__name__}) is not contiguous: shape {view.shape}, "
        f"strides {view.strides} bytes; copy it, or describe it by a derived datatype"
    )


def held(thing: Any, writable: bool = False) -> Any:
    """The memory of an object with a buffer that is contiguous in C order."""
    if is_tracked(thing):
        thing = Pin(thing, writable)
    return _from_buffer(CHARS, thing, writable)


def _region(thing: Any) -> _foreign.Region:
    place = _foreign.region(thing)
    if place is None:
        kind = type(thing).__name__
        raise TypeError(
            f"a message is a buffer or [buffer, count, datatype], not {kind}; "
            "Python objects go by the lowercase methods (send, bcast, ...)"
        )
    return place


def _of_region(place: _foreign.Region, writable: bool) -> Any:
    if writable and place.readonly:
        kind = type(place.keep).__name__
        raise BufferError(f"cannot receive into read-only memory ({kind})")
    return at(place.address, place.size, place.keep)


class _Keeper:
    """Holds an object until the memory is not used any more."""

    __slots__ = ("_keep",)

    def __init__(self, keep: Any) -> None:
        self._keep = keep

    def __call__(self, _: Any) -> None:
        self._keep = None


def at(address: int, size: int, keep: Any = None) -> Any:
    """The memory at an address, which `keep` keeps."""
    pointer = ffi.cast("char *", address)
    if keep is not None:
        pointer = ffi.gc(pointer, _Keeper(keep))
    return part(pointer, 0, size)


def part(address: Any, start: int, stop: int) -> Any:
    """Bytes `start` to `stop` of memory, which they keep."""
    return held(memoryview(ffi.buffer(address, stop))[start:])


def allocate(size: int) -> tuple[Any, Any]:
    """Fresh bytes, not cleared: their address, and a buffer over them.

    From a page's size on they begin at a multiple of 64.
    """
    if size < _PAGE:
        address = _new_bytes("char[]", max(size, 1))
    else:
        room = _new_bytes("char[]", size + ALIGNMENT)
        start = -numeric(room) % ALIGNMENT
        address = part(room, start, start + size)
    return address, ffi.buffer(address, size)


def numeric(address: Any) -> int:
    """An address as an int."""
    return int(ffi.cast("intptr_t", address))


# ----------------------------------------------------------------- MPI.buffer


class buffer(Exporter):
    """Memory with an address, as MPI.Alloc_mem returns it.

    It can be sent, received into, indexed and sliced (step 1) by bytes, and
    seen through memoryview() or numpy.frombuffer(). As long as such a view
    lives, the memory does.
    """

    __slots__ = ("__weakref__", "_chars", "_lent", "_obj", "_on_device", "_readonly")
    __module__ = "tbmpi.MPI"
    __hash__ = object.__hash__

    _chars: Any  # the memory, None if there is none
    _obj: Any
    _readonly: bool
    _on_device: bool
    _lent: _Lent | None  # set if it is memory of MPI_Alloc_mem

    def __new__(cls, *buf: Any) -> buffer:
        """The memory of a buffer or array, or none at all without one.

        Read-only if it is. TypeError if it has no memory, BufferError if that is
        not contiguous.
        """
        if not buf:
            return cls._over(None)
        (thing,) = buf
        return cls._from(thing, None)

    def __init_subclass__(cls) -> None:
        raise TypeError("MPI.buffer is not a base class")

    @classmethod
    def _over(cls, chars: Any, obj: Any = None, readonly: bool = False) -> buffer:
        self = object.__new__(cls)
        self._chars, self._obj, self._readonly = chars, obj, readonly
        self._on_device, self._lent = False, None
        return self

    @classmethod
    def _from(cls, thing: Any, readonly: bool | None) -> buffer:
        """`readonly`: whether the result is; None for "if the thing is"."""
        if thing is None:
            raise TypeError("None has no memory")
        try:
            view = memoryview(thing)
        except TypeError:
            place = _region(thing)
            chars = _of_region(place, readonly is False)
            self = cls._over(chars, thing, place.readonly)
            self._on_device = place.on_device
        else:
            if not view.c_contiguous:
                raise BufferError(
                    f"the memory is not contiguous: shape {view.shape}, "
                    f"strides {view.strides} bytes"
                )
            chars = of_view(thing, view, readonly is False)
            self = cls._over(chars, view.obj, view.readonly)
        if readonly is not None:
            self._readonly = readonly
        return self

    # ---------------------------------------------------------- construction

    @staticmethod
    def allocate(nbytes: int, clear: bool = False) -> buffer:
        """Fresh memory of `nbytes` bytes, zero if `clear`."""
        size = index(nbytes)
        if size < 0:
            raise ValueError(f"negative size: {size}")
        address, over = allocate(size)
        if clear:
            ffi.memmove(address, bytes(size), size)
        return buffer._over(part(address, 0, size), over)

    @staticmethod
    def frombuffer(obj: Any, readonly: bool = False) -> buffer:
        """The memory of a buffer or array, for bytes to be read or written.

        BufferError if it is not writable, unless `readonly`.
        """
        return buffer._from(obj, bool(readonly))

    @staticmethod
    def fromaddress(address: int, nbytes: int, readonly: bool = False) -> buffer:
        """The `nbytes` bytes at an address. They must exist as long as it is used."""
        size = index(nbytes)
        if size < 0:
            raise ValueError(f"negative size: {size}")
        if size and not address:
            raise ValueError(f"{size} bytes at address 0")
        return buffer._over(at(index(address), size), None, bool(readonly))

    # ------------------------------------------------------------ attributes

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return 0 if self._chars is None else numeric(self._chars)

    @property
    def obj(self) -> Any:
        """Whose memory it is, None if nobody's."""
        return self._obj

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return len(self)

    @property
    def readonly(self) -> bool:
        """Whether it must not be written to."""
        return self._readonly

    @property
    def format(self) -> str:
        """Format of an element, always a byte's."""
        return "B"

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes, always 1."""
        return 1

    # --------------------------------------------------------------- methods

    def cast(self, format: str, shape: Any = ...) -> memoryview:
        """A view of elements of another format, and of a shape."""
        view = memoryview(self)
        return view.cast(format) if shape is ... else view.cast(format, shape)

    def tobytes(self, order: str | None = None) -> bytes:
        """A copy as bytes; the order is that in memory, whatever is given."""
        return memoryview(self).tobytes()

    def toreadonly(self) -> buffer:
        """The same memory, not to be written to."""
        same = buffer._over(self._chars, self._obj, readonly=True)
        same._on_device = self._on_device
        return same

    def release(self) -> None:
        """Lets go of the memory; the size is 0 afterwards."""
        self._chars = self._obj = self._lent = None
        self._readonly = self._on_device = False

    def _memory(self, writable: bool) -> Any:
        if writable and self._readonly:
            raise BufferError("cannot receive into read-only memory (buffer)")
        return at(0, 0) if self._chars is None else self._chars

    def _exported(self) -> memoryview:
        if self._on_device:
            raise BufferError("the memory is declared to be on a device")
        view = memoryview(bytearray() if self._chars is None else self._bytes())
        return view.toreadonly() if self._readonly else view

    def _bytes(self) -> Any:
        return ffi.buffer(self._chars)

    # ------------------------------------------------------------ a sequence

    def __len__(self) -> int:
        return 0 if self._chars is None else len(self._chars)

    def __getitem__(self, item: Any, /) -> Any:
        view = memoryview(self)
        if isinstance(item, slice):
            start, stop = self._range(item)
            if self._chars is None:
                return buffer._over(None)
            chars = part(self._chars, start, stop)
            return buffer._over(chars, self, self._readonly)
        return view[_byte_index(item)]

    def __setitem__(self, item: Any, value: Any, /) -> None:
        view = memoryview(self)
        if self._readonly:
            raise TypeError("the memory is read-only")
        if not isinstance(item, slice):
            view[_byte_index(item)] = index(value)
            return
        start, stop = self._range(item)
        if hasattr(value, "__index__"):
            view[start:stop] = bytes((index(value),)) * (stop - start)
            return
        source = memory(value, writable=False)
        if len(source) != stop - start:
            raise ValueError(f"{len(source)} bytes do not fit {stop - start}")
        if source:
            ffi.memmove(self._chars + start, source, len(source))

    def __delitem__(self, item: Any, /) -> None:
        raise NotImplementedError("memory cannot be made smaller")

    def _range(self, item: slice) -> tuple[int, int]:
        start, stop, step = item.indices(len(self))
        if step != 1:
            raise IndexError(f"a step of {step}; memory can be sliced by steps of 1")
        return start, max(start, stop)


def _byte_index(item: Any) -> int:
    if not hasattr(item, "__index__"):
        raise TypeError(f"an index is an int or a slice, not {type(item).__name__}")
    return index(item)


# ---------------------------------------------------------- memory of MPI's own


class _Lent:
    """Gives memory back to MPI when it is freed and nobody has a view of it."""

    __slots__ = ("freed",)

    def __init__(self) -> None:
        self.freed = False

    def __call__(self, pointer: Any) -> None:
        over = ffi.new("int *")
        if self.freed and not lib.MPI_Finalized(over) and not over[0]:
            lib.MPI_Free_mem(pointer)


def Alloc_mem(size: int, info: Any = None) -> buffer:
    """Memory of `size` bytes from the library, not cleared.

    It may be quicker to send from than other memory. Free it by Free_mem.
    """
    count = index(size)
    if count < 0:
        raise ValueError(f"negative size: {count}")
    place = ffi.new("void **")
    hints = lib.MPI_INFO_NULL if info is None else info._h
    check(lib.MPI_Alloc_mem(count, hints, place))
    if place[0] == ffi.NULL:
        return buffer._over(at(0, 0))
    lent = _Lent()
    mem = buffer._over(part(ffi.gc(ffi.cast("char *", place[0]), lent), 0, count))
    mem._lent = lent
    return mem


def Free_mem(mem: buffer) -> None:
    """Gives memory of Alloc_mem back; `mem` has no bytes afterwards.

    Views of it stay valid: MPI gets it when the last one is gone. TypeError if
    `mem` is not an MPI.buffer.
    """
    if not isinstance(mem, buffer):
        raise TypeError(f"expected MPI.buffer, got {type(mem).__name__}")
    if mem._lent is not None:
        mem._lent.freed = True
    elif mem.address:
        check(lib.MPI_Free_mem(mem._chars))
    mem.release()


# ------------------------------------------------------ addresses that have names


class _Address(Exporter):
    """An address that means something else; also a buffer of no bytes."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"

    _name: ClassVar[str]
    _value: ClassVar[int]

    def __int__(self) -> int:
        return self._value

    def __bool__(self) -> bool:
        return self._value != 0

    def __hash__(self) -> int:
        return hash(self._value)

    def __eq__(self, other: object, /) -> bool:
        if isinstance(other, type(self)):
            return True
        return other == self._value if hasattr(other, "__index__") else NotImplemented

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name

    def _exported(self) -> None:
        """No bytes, at no address."""


class BottomType(_Address):
    """The type of MPI.BOTTOM: the datatype has absolute addresses."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _name, _value = "BOTTOM", numeric(lib.MPI_BOTTOM)

    def __index__(self) -> int:
        return self._value


class InPlaceType(_Address):
    """The type of MPI.IN_PLACE: the data are where the result goes."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _name, _value = "IN_PLACE", numeric(lib.MPI_IN_PLACE)


_fast.tell("InPlaceType", InPlaceType)


class BufferAutomaticType(_Address):
    """The type of MPI.BUFFER_AUTOMATIC: MPI makes room for buffered sends."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _name, _value = "BUFFER_AUTOMATIC", numeric(lib.MPI_BUFFER_AUTOMATIC)


BOTTOM = BottomType()
IN_PLACE = InPlaceType()
BUFFER_AUTOMATIC = BufferAutomaticType()


def Get_address(location: Any) -> int:
    """The address of a buffer's first byte; that of MPI.BOTTOM or None is 0."""
    if location is None:
        return int(BOTTOM)
    if isinstance(location, _Address):
        return int(location)
    out = ffi.new("MPI_Aint *")
    check(lib.MPI_Get_address(memory(location, writable=False), out))
    return out[0]
