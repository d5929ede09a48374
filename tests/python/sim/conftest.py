# SPDX-License-Identifier: MIT
"""Emulated Macs with real routers, and programs to run on them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launched import Launcher

from tbmpi.launch import control

ROOT = Path(__file__).resolve().parents[3]


class Macs(Launcher):
    """Starts jobs on emulated Macs."""

    limit = 110.0

    def start_sim(self, *words: str) -> subprocess.Popen[bytes]:
        """A job whose ranks have all been started."""
        job = self.start("--sim", *words)
        self.wait_for(lambda: job.pid in control.running())
        return job

    def ask(self, job: subprocess.Popen[bytes], **request: str):
        """What ``tbmpi sim`` would ask the job."""
        return control.ask(control.running()[job.pid], request)

    def fault(self, job: subprocess.Popen[bytes], text: str) -> None:
        """Makes something go wrong now."""
        self.ask(job, do="fault", fault=text)


@pytest.fixture
def macs(tmp_path: Path) -> Iterator[Macs]:
    """A launcher in an empty folder; what a test leaves is a failure."""
    it = Macs(tmp_path)
    try:
        yield it
        it.assert_nothing_left()
    finally:
        it.clean()


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Compiles a program of tests/faults, once."""
    folder = tmp_path_factory.mktemp("sim")
    compiler = Path(sys.executable).with_name("tbmpicc")

    def program(name: str) -> str:
        target = folder / name
        if not target.exists():
            source = ROOT / f"tests/faults/{name}.c"
            command = [compiler, "-O2", source, "-o", target]
            subprocess.run(command, check=True, timeout=60)
        return str(target)

    return program


@pytest.fixture
def tokens(build: Callable[[str], str]) -> str:
    """A program that sends data between all ranks, and looks at every byte."""
    return build("tokens")


@pytest.fixture
def flood(build: Callable[[str], str]) -> str:
    """The same all at once, in messages of all lengths."""
    return build("flood")


@pytest.fixture
def witness(build: Callable[[str], str]) -> str:
    """A program whose ranks say which error has come to them, and when."""
    return build("witness")
