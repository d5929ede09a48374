# SPDX-License-Identifier: MIT
"""N, NB, grid and ranks, from memory and cores."""

import pytest

from tbmpi.hpl.errors import HplError
from tbmpi.hpl.machines import Machine
from tbmpi.hpl.plan import (
    Wishes,
    allocate,
    flops,
    grids,
    largest_n,
    make_plan,
    rank_bytes,
)

GIB = 2**30
SMALL = Machine("small", 8 * GIB, 2)
SERVER = Machine("server", 256 * GIB, 16)


def mac(name, gib, cores=24):
    return Machine(name, gib * GIB, cores, "Darwin")


def matrix_share(plan):
    """The part of all memory that the matrix takes."""
    memory = sum(m.memory for m, r in zip(plan.machines, plan.ranks, strict=True) if r)
    return 8 * plan.n**2 / memory


def test_one_machine_is_filled_with_a_rank_a_core():
    plan = make_plan([SERVER], Wishes())
    assert plan.ranks == (16,)
    assert (plan.p, plan.q, plan.threads) == (4, 4, 1)
    assert plan.n % plan.nb == 0
    assert 0.70 < matrix_share(plan) <= 0.75


def test_a_mac_gets_few_ranks_with_many_threads():
    plan = make_plan([mac("m1", 512)], Wishes())
    assert plan.ranks == (4,)
    assert (plan.p, plan.q, plan.threads) == (2, 2, 6)


def test_four_equal_macs_share_equally():
    plan = make_plan([mac(f"m{i}", 256) for i in range(4)], Wishes())
    assert plan.ranks == (4, 4, 4, 4)
    assert (plan.p, plan.q) == (4, 4)
    assert plan.column_major
    assert 0.70 < matrix_share(plan) <= 0.75


def test_more_memory_and_cores_means_more_ranks():
    big, little = Machine("big", 96 * GIB, 12), Machine("little", 32 * GIB, 4)
    assert allocate([big, little], 4) == (3, 1)
    assert allocate([big, little], 8) == (6, 2)
    assert make_plan([big, little], Wishes()).ranks == (12, 4)


def test_a_machine_without_memory_gets_no_rank():
    plan = make_plan([SERVER, Machine("tiny", GIB // 4, 2)], Wishes())
    assert plan.ranks == (16, 0)


def test_a_machine_that_would_shrink_n_too_much_gets_none():
    plan = make_plan([SERVER, Machine("thin", 2 * GIB, 1)], Wishes())
    assert plan.ranks == (16, 0)
    assert plan.n > 150_000


def test_the_weakest_rank_fits():
    machines = [mac("a", 512), mac("b", 128), mac("c", 36, cores=10)]
    plan = make_plan(machines, Wishes())
    need = rank_bytes(plan.n, plan.nb, plan.p, plan.q)
    for machine, count in zip(machines, plan.ranks, strict=True):
        assert count * need <= 0.75 * machine.memory


def test_grid_and_block_size_are_obeyed_on_a_crowded_machine():
    plan = make_plan([SMALL], Wishes(n=2000, nb=64, grid=(2, 3)))
    assert (plan.n, plan.nb, plan.p, plan.q) == (2000, 64, 2, 3)
    assert plan.ranks == (6,)
    assert plan.threads == 1


def test_slots_limit_ranks():
    plan = make_plan([Machine("a", 64 * GIB, 16, slots=4)], Wishes())
    assert plan.ranks == (4,)
    assert plan.threads == 4


def test_small_n_gets_small_blocks():
    assert make_plan([SMALL], Wishes(n=100)).nb == 32
    assert make_plan([SMALL], Wishes(n=2000)).nb == 128
    assert make_plan([SMALL], Wishes(n=20000)).nb == 256


def test_too_large_n_names_the_largest():
    with pytest.raises(HplError, match=r"small has .* the largest N here is 2\d{4}$"):
        make_plan([SMALL], Wishes(n=100_000))


def test_grid_and_ranks_must_agree():
    with pytest.raises(HplError, match="--grid 2x2 needs 4 ranks, not --ranks 3"):
        make_plan([SMALL], Wishes(grid=(2, 2), ranks=3))


def test_no_room_at_all_is_an_error():
    with pytest.raises(HplError, match="too little"):
        make_plan([Machine("tiny", GIB // 64, 1)], Wishes())


def test_grids_are_squarest_first():
    assert list(grids(12)) == [(3, 4), (2, 6), (1, 12)]
    assert list(grids(7)) == [(1, 7)]


@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (4, 4)])
@pytest.mark.parametrize("share", [GIB, 10 * GIB + 12345, 200 * GIB])
def test_largest_n_is_the_largest(grid, share):
    n = largest_n(share, 256, *grid)
    assert rank_bytes(n, 256, *grid) <= share < rank_bytes(n + 256, 256, *grid)


def test_flops_is_hpls_count():
    assert flops(3000) == pytest.approx(2 / 3 * 3000**3 + 1.5 * 3000**2)
