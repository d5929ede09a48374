# SPDX-License-Identifier: MIT
"""What tbmpirun tells an agent about a job, and what the agent makes of it.

One side of each pair is tbmpirun's, the other the agent's: telling() and
plan(), greeting() and what cluster.py reads. Paths in the home folder here
mean the home folder there.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tbmpi.launch import links
from tbmpi.launch.errors import FAILED, LaunchError
from tbmpi.launch.nodes import Node
from tbmpi.launch.options import AppRequest, OutputRequest, Request
from tbmpi.launch.plan import Plan, lay_out, plan_head
from tbmpi.launch.wire import Message

# Of our environment the ranks elsewhere get these, and what -x names; the rest
# is that of their own machine.
CARRIED = (
    "TBMPI_", "MLX_", "JACCL_", "OMP_", "OPENBLAS_", "MKL_", "VECLIB_", "NUMEXPR_",
    "PYTHONHASHSEED",
)  # fmt: skip


def greeting(version: str) -> Message:
    """The agent's first words: who it is and where."""
    return {
        "tell": "hello",
        "version": version,
        "host": socket.gethostname(),
        "machine": _machine(),
        "kind": f"{sys.platform} {platform.machine()} {sys.byteorder}-endian",
        "ssh": os.environ.get("SSH_CONNECTION", ""),
    }


def _machine() -> str:
    """Equal for two agents when they share a running kernel, and processors."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()


def telling(plan: Plan, environ: Mapping[str, str]) -> Message:
    """The part of `prepare` that all agents get."""
    assert plan.cluster is not None
    request = plan.cluster.request
    apps = [
        {
            "words": app.words,
            "ranks": sum(rank.app == number for rank in plan.ranks),
            "wdir": os.path.abspath(app.wdir or "."),
            "env": app.env,
            "env_keep": app.env_keep,
        }
        for number, app in enumerate(request.apps)
    ]
    carried = {k: v for k, v in environ.items() if k.startswith(CARRIED)}
    named = [*request.env, *(key for app in request.apps for key in app.env)]
    return {
        "apps": apps,
        "env": request.env,
        "env_keep": request.env_keep,
        "as_mpi4py": request.as_mpi4py,
        "carried": carried | {k: environ[k] for k in named if k in environ},
        "home": os.path.expanduser("~"),
        "nodes": [[node.number, node.name, list(node.ranks)] for node in plan.nodes],
        "output": vars(plan.output),
        "stdin": plan.stdin,
        "iface": request.iface,
    }


def plan(told: Message) -> Plan:
    """The job as its agent here sees it: its own ranks in full.

    Raises LaunchError for a program or a folder that is not there.
    """
    nodes = tuple(
        Node(number, name, tuple(ranks)) for number, name, ranks in told["nodes"]
    )
    node = nodes[told["self"]]
    apps = [
        AppRequest(
            each["words"],
            each["ranks"],
            at_home(each["wdir"], told["home"]),
            each["env"],
            each["env_keep"],
        )
        for each in told["apps"]
    ]
    request = Request(apps=apps, env=told["env"], env_keep=told["env_keep"])
    request.as_mpi4py = told["as_mpi4py"]
    environ = {**os.environ, **told["carried"]}
    folder = os.path.dirname(sys.executable)
    environ["PATH"] = os.pathsep.join(filter(None, [folder, environ.get("PATH", "")]))
    here = frozenset(node.ranks)
    counts = [each["ranks"] for each in told["apps"]]
    ranks = lay_out(request, counts, nodes, environ, here)
    fed = told["stdin"] == "all" or told["stdin"] in map(str, node.ranks)
    stdin = told["stdin"] if fed else "none"
    return Plan(ranks, nodes, output=OutputRequest(**told["output"]), stdin=stdin)


def at_home(path: str, home: str) -> str:
    """A path of the other machine, here."""
    if home != "/" and path.startswith(home + "/"):
        return os.path.expanduser("~") + path[len(home) :]
    return path


def address(told: Message) -> str:
    """Where this machine listens for the others; LaunchError if nobody knows.

    Chosen by what is said, in this order: --iface, the host file's addresses,
    the address by which ssh came here. Never by a guess from the routes.
    """
    if told["iface"]:
        return links.of_interface(told["iface"])
    if told["addresses"]:
        for each in told["addresses"]:
            if links.is_ours(each):
                return str(each)
        raise LaunchError(
            f"none of {', '.join(told['addresses'])} is an address of this machine: "
            "see the host file's 'ips'",
            FAILED,
        )
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) == 4:
        return words[2]
    if told["seen"]:
        return str(told["seen"])
    raise LaunchError(
        "nobody says by which address the other machines reach this one: give "
        "'ips' in a host file, or --iface",
        FAILED,
    )


def plan_text(plan: Plan, job: str, node: Node, far: Iterable[int], crowd: int) -> str:
    """The plan as a rank of `node` reads it (csrc/net/plan.h)."""
    lines = plan_head(plan, job, node, "none", crowd)
    lines += [f"link {other} {{link{other}}}" for other in sorted(far)]
    lines += [f"bell {rank} {{bell{rank}}}" for rank in node.ranks]
    lines.append("ear {ear}")
    return "\n".join(lines) + "\n"
