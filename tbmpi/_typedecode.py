# SPDX-License-Identifier: MIT
"""How a derived datatype was made: read from MPI, and made again from that.

A recipe is what pickling a datatype saves: the constructor's name, its arguments,
and the recipes of the datatypes that it took.
"""

from __future__ import annotations

from typing import Any

from tbmpi._datatype import Datatype
from tbmpi._ffi import lib
from tbmpi._handle import predefined

_NAMES = (
    "NAMED DUP CONTIGUOUS VECTOR HVECTOR INDEXED HINDEXED INDEXED_BLOCK HINDEXED_BLOCK"
    " STRUCT SUBARRAY DARRAY RESIZED VALUE_INDEX F90_INTEGER F90_REAL F90_COMPLEX"
)
_COMBINERS = {getattr(lib, f"MPI_COMBINER_{name}"): name for name in _NAMES.split()}

Decoded = tuple[Datatype, str, dict[str, Any]]


def _datatype_decode(datatype: Datatype, mark: bool = False) -> Decoded:
    """As Datatype.decode; `mark` is of no use."""
    return decode(datatype)


def decode(datatype: Datatype) -> Decoded:
    """The old datatype, the constructor's name and its other arguments.

    Datatypes in the result are to be freed unless they are predefined.
    """
    name = _COMBINERS[datatype.Get_envelope()[-1]]
    if name == "NAMED":
        return datatype, name, {}
    numbers, addresses, counts, types = datatype.Get_contents()
    arguments = _arguments(name, numbers, addresses, counts)
    if name == "STRUCT":
        arguments["datatypes"] = types
    elif name == "VALUE_INDEX":
        arguments = {"value": types[0], "index": types[1]}
    old = types[0] if len(types) == 1 else predefined(Datatype, lib.MPI_DATATYPE_NULL)
    return old, name, arguments


def _arguments(
    name: str, numbers: list[int], addresses: list[int], counts: list[int]
) -> dict[str, Any]:
    """The numbers that a constructor got, which MPI returns in three lists.

    A type made by a function with large counts has its sizes in `counts`, any
    other one in the other two, in the same order.
    """
    if name == "SUBARRAY":
        dims, order = numbers[0], numbers[-1]
        sizes = _parts(counts or numbers[1:-1], dims)
        return dict(zip(("sizes", "subsizes", "starts"), sizes, strict=True)) | {
            "order": order
        }
    if name == "DARRAY":
        size, rank, dims = numbers[:3]
        gsizes = counts or numbers[3 : 3 + dims]
        distribs, dargs, psizes = _parts(numbers[-3 * dims - 1 : -1], dims)
        return {
            "size": size, "rank": rank, "gsizes": gsizes, "distribs": distribs,
            "dargs": dargs, "psizes": psizes, "order": numbers[-1],
        }  # fmt: skip
    if name.startswith("F90"):
        names = ("r",) if name == "F90_INTEGER" else ("p", "r")
        return dict(zip(names, numbers, strict=True))
    sizes = counts or numbers + addresses
    if name == "CONTIGUOUS":
        return {"count": sizes[0]}
    if name in ("VECTOR", "HVECTOR"):
        return dict(zip(("count", "blocklength", "stride"), sizes, strict=True))
    if name in ("INDEXED", "HINDEXED", "STRUCT"):
        lengths, places = _parts(sizes[1:], sizes[0])
        return {"blocklengths": lengths, "displacements": places}
    if name in ("INDEXED_BLOCK", "HINDEXED_BLOCK"):
        return {"blocklength": sizes[1], "displacements": sizes[2:]}
    if name == "RESIZED":
        return dict(zip(("lb", "extent"), sizes, strict=True))
    return {}


def _parts(values: list[int], size: int) -> list[list[int]]:
    """`values` in parts of `size`; of size 0, as many as any constructor takes."""
    if not size:
        return [[], [], []] if not values else [values]
    return [values[at : at + size] for at in range(0, len(values), size)]


def _datatype_create(
    datatype: Datatype, combiner: str, params: dict[str, Any], free: bool = False
) -> Datatype:
    """A committed datatype of what decode() has returned.

    With `free`, the datatypes that it is made of are freed unless predefined.
    """
    method = "Get_value_index" if combiner == "VALUE_INDEX" else None
    method = method or f"Create_{combiner.lower()}"
    try:
        return getattr(datatype, method)(**params).Commit()
    finally:
        if free:
            for old in (datatype, *_types_in(params)):
                _free(old)


def _types_in(params: dict[str, Any]) -> list[Datatype]:
    both = [params[name] for name in ("value", "index") if name in params]
    return [*params.get("datatypes", ()), *both]


def _free(datatype: Datatype) -> None:
    if datatype and not datatype.is_predefined:
        datatype.Free()


# ------------------------------------------------------------------ pickling

Recipe = tuple[str, Any, Any]


def recipe(datatype: Datatype) -> Recipe | Datatype:
    """What makes the datatype again; a predefined one stands for itself."""
    if predefined(Datatype, datatype._h) is not None:
        return predefined(Datatype, datatype._h)
    old, name, arguments = decode(datatype)
    parts = {
        key: _recipes(value) if key in ("datatypes", "value", "index") else value
        for key, value in arguments.items()
    }
    result = name, recipe(old), parts
    if old is not datatype:
        for part in (old, *_types_in(arguments)):
            _free(part)
    return result


def _recipes(value: Any) -> Any:
    return [recipe(one) for one in value] if isinstance(value, list) else recipe(value)


def rebuild(kind: type[Datatype], made: Recipe) -> Datatype:
    """The committed datatype of a recipe."""
    return kind(_rebuilt(made))


def _rebuilt(made: Recipe | Datatype) -> Datatype:
    if isinstance(made, Datatype):
        return made
    name, old, parts = made
    arguments = {}
    for key, value in parts.items():
        if key == "datatypes":
            arguments[key] = [_rebuilt(one) for one in value]
        else:
            arguments[key] = _rebuilt(value) if key in ("value", "index") else value
    return _datatype_create(_rebuilt(old), name, arguments, free=True)
