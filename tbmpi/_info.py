# SPDX-License-Identifier: MIT
"""MPI.Info: hints, a dictionary of strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from tbmpi._ffi import check, ffi, lib, text
from tbmpi._handle import Handle, predefined

Items = Mapping[str, str] | Iterable[tuple[str, str]]


class Info(Handle):
    """Keys and values, both str; the methods of a dict work too."""

    __slots__ = ()
    __module__ = "tbmpi.MPI"
    _ctype = "MPI_Info"
    _null = lib.MPI_INFO_NULL

    def __reduce__(self) -> Any:
        if predefined(Info, self._h) is not None:
            return super().__reduce__()
        return type(self).Create, (self.items(),)

    @classmethod
    def Create(cls, items: Items | Info | None = None) -> Self:
        """A new info with these items."""
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Info_create(out))
        info = cls._of(out[0])
        try:
            info.update(() if items is None else items)
        except BaseException:
            info.Free()
            raise
        return info

    @classmethod
    def Create_env(cls, args: Sequence[str] | str | None = None) -> Self:
        """What is known of how the program was started, as in MPI.INFO_ENV.

        `args` are the program's arguments, its name first.
        """
        words = [args] if isinstance(args, str) else list(args or ())
        chars = [ffi.new("char[]", word.encode()) for word in words]
        argv = ffi.new("char *[]", [*chars, ffi.NULL])
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Info_create_env(len(chars), argv if chars else ffi.NULL, out))
        return cls._of(out[0])

    def Free(self) -> None:
        """Frees the info."""
        self._free_with(lib.MPI_Info_free)

    def Dup(self) -> Self:
        """A copy."""
        out = ffi.new("MPI_Info *")
        check(lib.MPI_Info_dup(self._h, out))
        return type(self)._of(out[0])

    def Get(self, key: str) -> str | None:
        """The value of a key, None if there is none."""
        size, flag = ffi.new("int *", 0), ffi.new("int *")
        name = key.encode()
        check(lib.MPI_Info_get_string(self._h, name, size, ffi.NULL, flag))
        if not flag[0]:
            return None
        value = ffi.new("char[]", max(size[0], 1))
        check(lib.MPI_Info_get_string(self._h, name, size, value, flag))
        return text(value)

    def Set(self, key: str, value: str) -> None:
        """Sets a key."""
        check(lib.MPI_Info_set(self._h, key.encode(), value.encode()))

    def Delete(self, key: str) -> None:
        """Removes a key. MPI.Exception with ERR_INFO_NOKEY if it is not there."""
        check(lib.MPI_Info_delete(self._h, key.encode()))

    def Get_nkeys(self) -> int:
        """Number of keys."""
        out = ffi.new("int *")
        check(lib.MPI_Info_get_nkeys(self._h, out))
        return out[0]

    def Get_nthkey(self, n: int) -> str:
        """The key number `n`, from 0."""
        out = ffi.new("char[]", lib.MPI_MAX_INFO_KEY + 1)
        check(lib.MPI_Info_get_nthkey(self._h, n, out))
        return text(out)

    # ----------------------------------------------------------- as a dict

    def __len__(self) -> int:
        return self.Get_nkeys() if self else 0

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: str, /) -> bool:
        return bool(self) and self.Get(key) is not None

    def __getitem__(self, key: str, /) -> str:
        value = self.Get(key) if self else None
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: str, value: str, /) -> None:
        if not self:
            raise KeyError(key)
        self.Set(key, value)

    def __delitem__(self, key: str, /) -> None:
        if key not in self:
            raise KeyError(key)
        self.Delete(key)

    def get(self, key: str, default: str | None = None) -> str | None:
        """The value of a key, or `default`."""
        value = self.Get(key) if self else None
        return default if value is None else value

    def keys(self) -> list[str]:
        """All keys."""
        return [self.Get_nthkey(n) for n in range(len(self))]

    def values(self) -> list[str]:
        """All values, in the order of the keys."""
        return [self[key] for key in self.keys()]

    def items(self) -> list[tuple[str, str]]:
        """All pairs."""
        return [(key, self[key]) for key in self.keys()]

    def update(self, items: Items | Info = (), **more: str) -> None:
        """Sets several keys. KeyError if this is MPI.INFO_NULL."""
        if not self:
            raise KeyError("MPI.INFO_NULL has no keys")
        pairs: Any = items.items() if hasattr(items, "items") else items
        for key, value in [*pairs, *more.items()]:
            self.Set(key, value)

    def pop(self, key: str, *default: Any) -> Any:
        """Removes a key; its value, or `default`."""
        if key in self:
            value = self[key]
            self.Delete(key)
            return value
        if default:
            return default[0]
        raise KeyError(key)

    def popitem(self) -> tuple[str, str]:
        """Removes the last key; the pair. KeyError if the info is empty."""
        if not len(self):
            raise KeyError("popitem: the info is empty")
        key = self.Get_nthkey(len(self) - 1)
        return key, self.pop(key)

    def copy(self) -> Self:
        """A copy; null if this is."""
        return self.Dup() if self else type(self)()

    def clear(self) -> None:
        """Removes all keys."""
        for key in self.keys():
            self.Delete(key)


Info._family = (Info,)
