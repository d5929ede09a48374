# SPDX-License-Identifier: MIT
"""From what was typed to what will be started: every rank, in full.

All that can be wrong before a process exists is found here: a missing
program, a bad directory, a host that is not this one, too many ranks.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tbmpi import _paths, as_mpi4py
from tbmpi.launch import hosts
from tbmpi.launch.errors import NOT_EXECUTABLE, NOT_FOUND, LaunchError
from tbmpi.launch.guard import MOST_DESCRIPTORS
from tbmpi.launch.nodes import Node, deal, local_variables, place
from tbmpi.launch.options import AppRequest, OutputRequest, Request, seconds

if TYPE_CHECKING:
    from tbmpi.launch.faults import Fault
    from tbmpi.launch.topology import Topology

MAX_RANKS = 4096
NODE_NAME_MOST = 63  # TB_PLAN_NAME_BYTES of csrc/net/plan.h
# On several machines: their connections are handed over at once (guard.py), with
# standard input, output and error, PMI, the segment, the plan, and an ear.
MAX_JOINED = MOST_DESCRIPTORS - 7

# Left behind by a launcher that started us; they would mislead the ranks.
STALE = re.compile(
    r"(PMI_|PMIX_|PMI2_|OMPI_COMM_WORLD_|OMPI_UNIVERSE_SIZE$|HYDI_|HYDRA_"
    r"|MPI_LOCALRANKID$|MPI_LOCALNRANKS$|TBMPI_(RANK|SIZE|INSIDE|HOST_NAME)$"
    r"|TBMPI_(SHM|PLAN|POOL)_FD$|TBMPI_(FABRIC|FABRIC_HOST)$)"
)


@dataclass(frozen=True)
class RankPlan:
    """One rank: what to run, where, and with which environment."""

    rank: int
    app: int
    host: str  # the machine's name, emulated or real
    argv: tuple[str, ...]
    program: str
    cwd: str
    env: Mapping[str, str]

    @property
    def name(self) -> str:
        """The program as people call it."""
        return Path(self.argv[0]).name


@dataclass(frozen=True)
class Simulation:
    """Emulated Macs: their cables, who owns the verbs, what is to go wrong."""

    topology: Topology
    routers: bool
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class Cluster:
    """Several machines: how they are reached. `hosts` are the nodes' in order.

    What their agents make of `request` is theirs: programs are looked for
    where they run.
    """

    hosts: tuple[hosts.Host, ...]
    request: Request


@dataclass(frozen=True)
class Plan:
    """The whole job: what to run on which machines.

    `sim` says how these are emulated, `cluster` how they are reached; without
    either there is one, this one.
    """

    ranks: tuple[RankPlan, ...]
    nodes: tuple[Node, ...]
    sim: Simulation | None = None
    cluster: Cluster | None = None
    output: OutputRequest = field(default_factory=OutputRequest)
    stdin: str = "0"
    timeout: float | None = None
    verbose: bool = False

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)


def plan_head(plan: Plan, job: str, node: Node, owner: str, crowd: int) -> list[str]:
    """How the plan begins that the processes of `node` read (csrc/net/plan.h)."""
    lines = [
        "tbmpi-plan 1",
        f"job {job}",
        f"size {plan.size}",
        f"nodes {len(plan.nodes)}",
        f"self {node.number}",
        f"owner {owner}",
        f"crowd {crowd}",
    ]
    for each in plan.nodes:
        ranks = "".join(f" {rank}" for rank in each.ranks)
        lines.append(f"node {each.number} {each.name[:NODE_NAME_MOST]}{ranks}")
    return lines


def make_plan(request: Request, environ: Mapping[str, str]) -> Plan:
    """Checks a request as a whole and lays out its ranks.

    Raises LaunchError; reads the file system, changes nothing.
    """
    simulation = _simulation(request)
    cluster = None if simulation else _cluster(request)
    names = simulation.topology.hosts if simulation else (hosts.local_name(),)
    counts = _counts(request, len(names))
    size = sum(counts)
    if size > MAX_RANKS:
        raise LaunchError(
            f"{size} ranks are too many; at most {MAX_RANKS} start on one machine"
        )
    if cluster:
        nodes = deal(cluster.hosts, size, request.per_node)
        if size > MAX_JOINED and len(nodes[0].ranks) < size:
            raise LaunchError(
                f"{size} ranks on several machines are too many; each has a socket "
                f"to every rank elsewhere, so at most {MAX_JOINED} start"
            )
    else:
        nodes = _nodes(request, names, size, simulation)
    # Ranks of other machines are laid out there.
    here = frozenset() if cluster else frozenset(range(size))
    ranks = lay_out(request, counts, nodes, environ, here)
    if request.stdin.isdigit() and int(request.stdin) >= size:
        raise LaunchError(
            f"--stdin {request.stdin}: the job has ranks 0 to {size - 1} only"
        )
    return Plan(
        ranks,
        nodes,
        simulation,
        cluster,
        request.output,
        request.stdin,
        _time_limit(request, environ),
        request.verbose,
    )


def lay_out(
    request: Request,
    counts: Sequence[int],
    nodes: Sequence[Node],
    environ: Mapping[str, str],
    here: frozenset[int],
) -> tuple[RankPlan, ...]:
    """All ranks of a job; of those that are not `here` no more than their place.

    Raises LaunchError for what is wrong with the programs of those that are.
    """
    size = sum(counts)
    node_of = {rank: node for node in nodes for rank in node.ranks}
    ranks: list[RankPlan] = []
    for number, (app, count) in enumerate(zip(request.apps, counts, strict=True)):
        mine = range(len(ranks), len(ranks) + count)
        program, cwd, env = "", app.wdir or "", {}
        if here.intersection(mine):
            env = _environment(request, app, environ)
            env.setdefault("OMP_NUM_THREADS", str(threads_of_rank(len(here))))
            cwd = _directory(app)
            path = env.get("PATH", environ.get("PATH", ""))
            program = find_program(app.words[0], cwd, path)
        for rank in mine:
            node = node_of[rank]
            own = env
            if rank in here:
                own = env | _rank_variables(rank, size) | local_variables(node, rank)
            words = tuple(app.words)
            ranks.append(RankPlan(rank, number, node.name, words, program, cwd, own))
    return tuple(ranks)


def _cluster(request: Request) -> Cluster | None:
    if all(hosts.is_local(host.name) for host in request.hosts):
        return None
    if any(host.rdma for host in request.hosts):
        request.note(
            "the host file's rdma devices are not used: ranks of different machines "
            "talk over sockets"
        )
    return Cluster(tuple(request.hosts), request)


def _counts(request: Request, machines: int) -> list[int]:
    slots = sum(host.slots for host in request.hosts)
    if request.per_node:
        slots = request.per_node * max(len(request.hosts), 1)
    default = slots or 1
    if request.sim:
        # Without -n, one program fills the Macs; several have a rank each.
        alone = len(request.apps) == 1
        default = (request.per_node or 1) * machines if alone else 1
    return [app.ranks or default for app in request.apps]


def _simulation(request: Request) -> Simulation | None:
    if not request.sim:
        if request.faults or request.router:
            option = "--fault" if request.faults else "--router"
            raise LaunchError(f"{option} needs --sim: it is about emulated Macs")
        return None
    from tbmpi.launch import faults, topology

    there = topology.find(request.sim)
    planned = tuple(faults.parse(text, there) for text in request.faults)
    return Simulation(there, request.router != "never", planned)


def _nodes(
    request: Request,
    machines: Sequence[str],
    size: int,
    simulation: Simulation | None,
) -> tuple[Node, ...]:
    if simulation is None:
        return place(machines, size, size)
    nodes = place(machines, size, request.per_node)
    for fault in simulation.faults:
        fault.check_ranks(size)
    if not simulation.routers:
        _check_no_routers(simulation.topology, nodes)
        request.note(
            "--router never: ranks own the verbs, so on real Macs a rank that is "
            "killed leaks its queue pairs until the next reboot"
        )
    return nodes


def _check_no_routers(there: Topology, nodes: Sequence[Node]) -> None:
    for node in nodes:
        if len(node.ranks) != 1:
            raise LaunchError(
                f"--router never needs one rank on each Mac, but {node.name} has "
                f"{node.note}; use -n {len(nodes)} --ranks-per-node 1"
            )
        for other in nodes[: node.number]:
            if not there.between(other.number, node.number):
                raise LaunchError(
                    f"--router never needs a cable between every two Macs, but none "
                    f"joins {other.name} and {node.name}: there a router passes on"
                )


def _time_limit(request: Request, environ: Mapping[str, str]) -> float | None:
    if request.timeout is None and environ.get("MPIEXEC_TIMEOUT"):
        return seconds("MPIEXEC_TIMEOUT", environ["MPIEXEC_TIMEOUT"])
    return request.timeout


def _environment(
    request: Request, app: AppRequest, environ: Mapping[str, str]
) -> dict[str, str]:
    keep = app.env_keep if app.env_keep is not None else request.env_keep
    env = {
        key: value
        for key, value in environ.items()
        if (keep is None or key in keep) and not STALE.match(key)
    }
    library = _paths.library()
    if library.exists():
        env.setdefault("MPI4PY_LIBMPI", str(library))
    # A Python rank writes into a pipe and would keep its lines to itself
    # until it ends; and it can say where it hangs (see stacks.py).
    env.setdefault("PYTHONUNBUFFERED", "1")
    env.setdefault("PYTHONFAULTHANDLER", "1")
    for key, value in {**request.env, **app.env}.items():
        if value is not None:
            env[key] = value
        elif key in environ:
            env[key] = environ[key]
        else:
            request.note(
                f"-x {key}: the variable is not set here, so nothing is passed"
            )
    if request.as_mpi4py:
        env |= as_mpi4py.environment(env)
    mlx = _paths.mlx_library()
    # A bare name is that of an Open MPI that mlx.launch has found on PATH.
    if "/" not in env.get("MLX_MPI_LIBNAME", "") and mlx.exists():
        env["MLX_MPI_LIBNAME"] = str(mlx)
    return env


def threads_of_rank(ranks: int) -> int:
    """How many threads keep the cores busy if so many ranks share the machine.

    Numerical libraries start one a core otherwise, in every rank.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(cores // ranks, 1)


def _rank_variables(rank: int, size: int) -> dict[str, str]:
    """What programs look at to learn their rank before MPI_Init."""
    return {
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "TBMPI_RANK": str(rank),
        "TBMPI_SIZE": str(size),
    }


def _directory(app: AppRequest) -> str:
    wdir = os.path.abspath(app.wdir or ".")
    if not os.path.isdir(wdir):
        raise LaunchError(
            f"the working directory {app.wdir} (-wdir) is not a directory"
        )
    return wdir


def find_program(word: str, cwd: str, path: str) -> str:
    """The file that `word` means for a rank in `cwd`; LaunchError if none."""
    if "/" in word:
        found = os.path.join(cwd, word)
        if not os.path.exists(found):
            raise LaunchError(f"no such program: {word} (looked in {cwd})", NOT_FOUND)
    else:
        found = shutil.which(word, path=path) or ""
        if not found:
            raise LaunchError(_not_on_path(word, cwd), NOT_FOUND)
        found = os.path.abspath(found)
    if stat.S_ISDIR(os.stat(found).st_mode):
        raise LaunchError(f"{word} is a directory, not a program", NOT_EXECUTABLE)
    if not os.access(found, os.X_OK):
        raise LaunchError(f"{word} is not executable; {_remedy(word)}", NOT_EXECUTABLE)
    return found


def _not_on_path(word: str, cwd: str) -> str:
    if os.path.exists(os.path.join(cwd, word)):
        if word.endswith(".py"):
            return f"no program '{word}' on PATH; for the script here: {_remedy(word)}"
        return f"no program '{word}' on PATH; for the file here write ./{word}"
    return f"no program '{word}' on PATH; give its path or add its directory to PATH"


def _remedy(word: str) -> str:
    if word.endswith(".py"):
        return f"try: tbmpirun -n 4 python {word}"
    return f"try: chmod +x {word}"
