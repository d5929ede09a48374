# SPDX-License-Identifier: MIT
"""The machines of a job, real or emulated, and which ranks each one has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tbmpi.launch.board import rank_list
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.hosts import Host


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


def deal(hosts: Sequence[Host], size: int, per_node: int | None) -> tuple[Node, ...]:
    """Deals ranks in blocks to hosts that say how many they take.

    Where none says so, and nobody else, they are dealt evenly. Hosts that are
    left without a rank have a node all the same. Raises LaunchError.
    """
    names = [host.name for host in hosts]
    if per_node or not any(host.counted for host in hosts):
        return place(names, size, per_node)
    total = sum(host.slots for host in hosts)
    if size > total:
        raise LaunchError(
            f"{size} ranks do not fit: the hosts take {total} "
            f"({', '.join(f'{host.name}:{host.slots}' for host in hosts)})"
        )
    nodes, first = [], 0
    for at, host in enumerate(hosts):
        end = min(first + host.slots, size)
        nodes.append(Node(at, host.name, tuple(range(first, end))))
        first = end
    return tuple(nodes)


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
