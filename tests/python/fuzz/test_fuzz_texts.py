# SPDX-License-Identifier: MIT
"""Topology files and faults that make no sense: one message that says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tbmpi.launch import faults, topology, topology_file
from tbmpi.launch.errors import LaunchError

QUICK = settings(
    max_examples=int(os.environ.get("TBMPI_FUZZ_EXAMPLES", "100")),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
names = st.sampled_from(["a", "b", "c", "a:rdma_en2", "b:rdma_en3", "", "a b", "é"])
scraps = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), names, st.text(max_size=4)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["hosts", "cables", "rdma", "ssh", "ips"]), inner
        ),
    ),
    max_leaves=8,
)
cables = st.lists(st.lists(names, min_size=2, max_size=2), max_size=4)
ours = st.fixed_dictionaries(
    {},
    optional={
        "hosts": st.one_of(st.lists(names, max_size=4), scraps),
        "cables": st.one_of(cables, scraps),
        "fabric": st.one_of(st.just({"latency": "8us"}), scraps),
        "other": scraps,
    },
)
rows = st.fixed_dictionaries({"ssh": names}, optional={"rdma": scraps, "ips": scraps})
WORDS = """
at 700ms 2s pull plug drop corrupt kill stop router rank 0 1 9 -1 1% 900% mac0
mac0-mac1 segv set loss 3us port down
"""
words = st.sampled_from(WORDS.split())


def said_once(error: LaunchError, quoted: str = "") -> bool:
    """Whether it is one line, but for what it quotes."""
    said = str(error).replace(quoted, "") if quoted else str(error)
    return bool(said) and "\n" not in said


@QUICK
@given(st.one_of(ours, st.lists(rows, max_size=4), scraps))
def test_topology_files(tmp_path_factory: Any, data: Any) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "topology.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    try:
        found = topology_file.read(str(path))
    except LaunchError as error:
        assert said_once(error)
        return
    for cable in found.cables:
        assert cable.a.host != cable.b.host
        assert max(cable.pair) < len(found.hosts)


@QUICK
@given(st.one_of(st.binary(max_size=40), st.text(max_size=40).map(str.encode)))
def test_what_is_no_json(tmp_path_factory: Any, data: bytes) -> None:
    path = Path(tmp_path_factory.getbasetemp()) / "scrap.json"
    path.write_bytes(data)
    try:
        topology_file.read(str(path))
    except LaunchError as error:
        assert said_once(error)


@QUICK
@given(st.one_of(st.lists(words, max_size=6).map(" ".join), st.text(max_size=20)))
def test_faults(text: str) -> None:
    try:
        faults.parse(text, topology.find("mesh:3"))
    except LaunchError as error:
        assert said_once(error, text)


@QUICK
@given(st.from_regex(r"\A[a-z]{0,5}:?-?\d{0,12}(x\d{0,4})?\Z") | st.text(max_size=12))
def test_names_of_topologies(text: str) -> None:
    try:
        found = topology.find(text)
    except LaunchError as error:
        assert said_once(error, text)
    else:
        assert found.hosts
