# SPDX-License-Identifier: MIT
"""The machines of a job, real or emulated, and which ranks each one has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tbmpi.launch.board import rank_list
from tbmpi.launch.errors import LaunchError


@dataclass(frozen=True)
class Node:
    """A machine: its number, its name, its ranks in ascending order."""

    number: int
    name: str
    ranks: tuple[int, ...]

    @property
    def note(self) -> str:
        """Its ranks in words."""
        return rank_list(self.ranks) if self.ranks else "no rank"


def place(hosts: Sequence[str], size: int, per_node: int | None) -> tuple[Node, ...]:
    """Deals ranks in blocks; evenly if nobody says how many a machine has."""
    block = per_node or -(-size // len(hosts))
    if size > block * len(hosts):
        raise LaunchError(
            f"{size} ranks do not fit on {len(hosts)} machines with "
            f"--ranks-per-node {block}; that makes {block * len(hosts)}"
        )
    return tuple(
        Node(at, name, tuple(range(at * block, min((at + 1) * block, size))))
        for at, name in enumerate(hosts)
    )


def local_variables(node: Node, rank: int) -> Mapping[str, str]:
    """What programs look at to learn their place among a machine's ranks."""
    place, count = str(node.ranks.index(rank)), str(len(node.ranks))
    return {
        "MPI_LOCALRANKID": place,
        "MPI_LOCALNRANKS": count,
        "OMPI_COMM_WORLD_LOCAL_RANK": place,
        "OMPI_COMM_WORLD_LOCAL_SIZE": count,
    }


def process_mapping(nodes: Sequence[Node]) -> str:
    """The machines in PMI's words: blocks of (first, how many, ranks each)."""
    blocks: list[list[int]] = []
    for node in nodes:
        if blocks and blocks[-1][2] == len(node.ranks):
            blocks[-1][1] += 1
        elif node.ranks:
            blocks.append([node.number, 1, len(node.ranks)])
    return f"(vector,{','.join('({},{},{})'.format(*block) for block in blocks)})"
