# SPDX-License-Identifier: MIT
"""The groups of tests, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import lint
import model
import native
import oracle
import packages
import portability
import python
import suites
import vm
from report import Outcome
from run import Runner

ALL = ("test", "full")


@dataclass(frozen=True)
class Group:
    """Some tests that share a line.

    `minutes` is the most that they may take, `longer` the factor in the full set.
    """

    name: str
    about: str
    run: Callable[[Runner], Outcome]
    minutes: float
    sets: tuple[str, ...] = ALL
    longer: float = 1


GROUPS = (
    Group(
        "lint",
        "formatters, linters, layers, generated files",
        lint.lint,
        2,
        ("lint", *ALL),
    ),
    Group("units", "C unit tests and the transport suite", native.units, 8),
    Group("smoke", "C programs on 1 to 5 ranks", native.smoke, 8),
    Group("abi", "the surface against the standard ABI", python.abi, 2),
    Group("launcher", "tbmpirun", python.launcher, 8),
    Group(
        "commands",
        "other commands; start and end of Python programs",
        python.commands,
        10,
    ),
    Group("mpi", "the Python API on 1 to 4 ranks", python.mpi, 6),
    Group("random", "random programs, as on MPICH", oracle.random, 8, longer=12),
    Group("mlx", "MLX on 2 and 4 ranks", python.mlx, 6, longer=2),
    Group("examples", "every example checks itself", python.examples, 5, longer=2),
    Group("faults", "ranks killed at random moments", python.faults, 5, longer=8),
    Group("sim", "emulated Macs, their cables and faults", python.sim, 8, longer=2),
    Group("hpl", "HPL on 2 x 2 ranks", suites.hpl_quick, 6),
    Group("fuzz", "inputs that lie", python.fuzz, 4, longer=8),
    Group("mpich", "MPICH's test suite", suites.mpich, 8, longer=24),
    Group(
        "mpich-sim",
        "MPICH's test suite on emulated Macs",
        suites.mpich_sim,
        6,
        longer=15,
    ),
    Group("mpi4py", "mpi4py's test suite", suites.mpi4py, 8, longer=30),
    Group("wheel", "the wheel, alone and beside MPICH", packages.wheel, 8),
    Group("model", "rings and doorbell under weak memory order", model.model, 3),
    Group(
        "portability",
        "barriers; habits of other machines",
        portability.portability,
        8,
        longer=4,
    ),
    Group("macos", "cross-compiled for a Mac, not run", packages.macos, 4),
    Group("oracle", "the Python API on MPICH's library", oracle.oracle, 8, ("full",)),
    Group(
        "sanitizers",
        "units and smoke with ASan, UBSan, TSan",
        native.sanitizers,
        40,
        ("full",),
    ),
    Group("soak", "10 GiB, and HPL, over lossy cables", native.soak, 60, ("full",)),
    Group("mutants", "each rule broken, and seen", native.mutants, 30, ("full",)),
    Group("vm", "Soft-RoCE in a virtual machine", vm.vm, 25, ("full",)),
    Group("hpl-matrix", "HPL's variants, digits as MPICH's", suites.hpl, 40, ("full",)),
    Group("hpl-sim", "HPL on emulated Macs", suites.hpl_sim, 20, ("full",)),
    Group("hpcc", "the whole HPC Challenge", suites.hpcc, 20, ("full",)),
    Group("programs", "mpi4py programs from PyPI", suites.programs, 30, ("full",)),
)
