# SPDX-License-Identifier: MIT
"""Communicators, groups, topologies, info and the behaviour of handles."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

from tbmpi import COMM_SELF, COMM_WORLD, MPI

pytestmark = pytest.mark.mpi


def test_world_and_self() -> None:
    assert COMM_WORLD is MPI.COMM_WORLD
    assert COMM_WORLD.Get_size() == COMM_WORLD.size >= 1
    assert 0 <= COMM_WORLD.rank < COMM_WORLD.size
    assert (COMM_SELF.rank, COMM_SELF.size) == (0, 1)
    assert COMM_WORLD.Get_name() == "MPI_COMM_WORLD"
    assert COMM_WORLD.Get_attr(MPI.TAG_UB) >= 32767
    assert COMM_WORLD.Get_errhandler() == MPI.ERRORS_RETURN


def test_split(comm: Any) -> None:
    half = comm.Split(comm.rank % 2, -comm.rank)
    members = [r for r in range(comm.size) if r % 2 == comm.rank % 2][::-1]
    assert half.allgather(comm.rank) == members
    assert type(half) is MPI.Intracomm
    half.Free()
    assert half == MPI.COMM_NULL
    none = comm.Split(MPI.UNDEFINED if comm.rank else 0)
    assert bool(none) == (comm.rank == 0)
    none.free()
    here = comm.Split_type(MPI.COMM_TYPE_SHARED)
    assert here.size <= comm.size
    here.Free()


def test_dup_and_compare(comm: Any) -> None:
    other = comm.Dup()
    assert comm.Compare(other) == MPI.CONGRUENT
    assert comm.Compare(comm) == MPI.IDENT
    assert other != comm
    later, request = comm.Idup()
    request.Wait()
    assert later.size == comm.size
    for one in (other, later):
        one.Free()


def test_groups(comm: Any) -> None:
    world = comm.Get_group()
    odd = world.Incl(range(1, comm.size, 2))
    even = world.Excl(range(1, comm.size, 2))
    assert odd.size + even.size == world.size == comm.size
    assert MPI.Group.Union(even, odd).size == comm.size
    assert MPI.Group.Intersection(even, odd) == MPI.GROUP_EMPTY
    assert MPI.Group.Difference(world, odd).Compare(even) == MPI.IDENT
    assert even.Translate_ranks(group=world) == list(range(0, comm.size, 2))
    assert world.Range_incl([(0, comm.size - 1, 2)]).size == even.size
    made = comm.Create(even)
    if comm.rank % 2 == 0:
        assert made.size == even.size
        made.Free()
        own = comm.Create_group(even)
        assert own.rank == comm.rank // 2
        own.Free()
    else:
        assert made == MPI.COMM_NULL
    for group in (odd, even, world):
        group.Free()


@pytest.mark.mpi(min_size=2)
def test_intercommunicator(comm: Any) -> None:
    low = comm.rank < comm.size // 2
    local = comm.Split(int(low))
    leader = comm.size // 2 if low else 0
    both = local.Create_intercomm(0, comm, leader, tag=1)
    assert both.is_inter
    assert both.size + both.remote_size == comm.size
    theirs = both.allgather(comm.rank)
    assert theirs == [r for r in range(comm.size) if (r < comm.size // 2) != low]
    if low:
        value = both.bcast("hello", MPI.ROOT if comm.rank == 0 else MPI.PROC_NULL)
    else:
        value = both.bcast(None, 0)
        assert value == "hello"
    merged = both.Merge(high=not low)
    assert merged.rank == comm.rank
    for one in (merged, both, local):
        one.Free()


def test_grid(comm: Any) -> None:
    dims = MPI.Compute_dims(comm.size, 2)
    grid = comm.Create_cart(dims, periods=[True, False])
    assert isinstance(grid, MPI.Cartcomm)
    assert (grid.dim, grid.dims, grid.periods) == (2, dims, [1, 0])
    assert grid.Get_cart_rank(grid.coords) == grid.rank
    assert grid.Get_coords(grid.rank) == grid.coords
    row, column = grid.coords
    up, down = grid.Shift(0, 1)
    assert grid.Get_coords(down) == [(row + 1) % dims[0], column]
    left, right = grid.Shift(1, 1)
    assert (left == MPI.PROC_NULL) == (column == 0)
    assert (right == MPI.PROC_NULL) == (column == dims[1] - 1)
    line = grid.Sub([False, True])
    assert line.size == dims[1]
    assert line.rank == column
    into = np.full(4, -1)
    grid.Neighbor_allgather(np.array([grid.rank]), into)
    expected = [r if r != MPI.PROC_NULL else -1 for r in (up, down, left, right)]
    assert into.tolist() == expected
    assert grid.is_topo and grid.topology == MPI.CART
    for one in (line, grid):
        one.Free()


def test_dist_graph(comm: Any) -> None:
    below, above = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    graph = comm.Create_dist_graph_adjacent([below], [above])
    assert (graph.inedges, graph.outedges) == ([below], [above])
    into = np.zeros(2)
    graph.Neighbor_alltoall(np.full(2, comm.rank + 0.5), into)
    assert (into == below + 0.5).all()
    graph.Free()


def test_info() -> None:
    info = MPI.Info.Create({"one": "1", "two": "2"})
    info["three"] = "3"
    assert sorted(info.items()) == [("one", "1"), ("three", "3"), ("two", "2")]
    assert info.get("four", "none") == "none"
    assert info.pop("one") == "1" and "one" not in info
    with pytest.raises(KeyError):
        del info["one"]
    other = info.Dup()
    info.clear()
    assert (len(info), len(other)) == (0, 2)
    info.Free()
    other.Free()
    assert not MPI.INFO_NULL


def test_errors_are_exceptions(comm: Any) -> None:
    for call, kind in (
        (lambda: comm.Send(np.zeros(1), dest=comm.size), MPI.ERR_RANK),
        (lambda: comm.Send(np.zeros(1), dest=0, tag=-5), MPI.ERR_TAG),
        (lambda: MPI.COMM_NULL.Barrier(), MPI.ERR_COMM),
        (lambda: comm.Send([np.zeros(1), 1, MPI.DATATYPE_NULL], 0), MPI.ERR_TYPE),
        (lambda: MPI.DOUBLE.Create_vector(-1, 1, 1), MPI.ERR_ARG),
    ):
        with pytest.raises(MPI.Exception) as caught:
            call()
        assert caught.value.error_class in (kind, MPI.ERR_COUNT)
        assert str(caught.value)


@pytest.mark.parametrize("name", ["COMM_WORLD", "SUM", "DOUBLE", "INFO_NULL", "BOOL"])
def test_predefined_objects_pickle(name: str) -> None:
    thing = getattr(MPI, name)
    for copied in (pickle.loads(pickle.dumps(thing)), copy.copy(thing)):
        assert copied == thing
    assert type(thing).fromhandle(thing.handle) == thing
    assert type(thing).fromint(thing.toint()) == thing
    assert type(thing)(thing) == thing
    with pytest.raises(TypeError):
        type(thing)(1234)
    with pytest.raises(TypeError):
        hash(thing)


def test_an_object_of_this_process_does_not_pickle(comm: Any) -> None:
    with pytest.raises(ValueError, match="another process"):
        pickle.dumps(comm)


def test_subclasses(comm: Any) -> None:
    class Mine(MPI.Intracomm):
        extra = 5

    mine = Mine(comm)
    assert mine == comm and mine.rank == comm.rank
    dup = mine.Dup()
    assert type(dup) is Mine and dup.extra == 5
    dup.Free()


def test_everything_public_is_explained() -> None:
    for name in dir(MPI):
        thing = getattr(MPI, name)
        if name.startswith("_") or not callable(thing) or thing.__module__ == "typing":
            continue
        assert thing.__doc__, name
        if not inspect.isclass(thing):
            continue
        for member, value in vars(thing).items():
            if not member.startswith("_") and (
                callable(value) or isinstance(value, property)
            ):
                assert value.__doc__, f"{name}.{member}"


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(MPI.Exception) as caught:
        MPI.File.Open(MPI.COMM_SELF, "nowhere")
    assert caught.value.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION
    assert isinstance(caught.value, NotImplementedError)
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = MPI.Nonsense
