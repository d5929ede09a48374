# SPDX-License-Identifier: MIT
"""Host lists and host files, in the formats of Open MPI, Hydra, MLX and exo."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tbmpi.launch import hostfile
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.hosts import Host, is_local, parse_list


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (
            "mac1 slots=2\nmac2 slots=4 max-slots=8 # fast\n\n",
            [Host("mac1", 2), Host("mac2", 4)],
        ),
        ("mac1\nmac1\n", [Host("mac1", 2)]),
        ("# all\nmac1:3\nmac2\n", [Host("mac1", 3), Host("mac2", 1)]),
        ("me@mac1\nfe80::1%en2\n", [Host("me@mac1"), Host("fe80::1%en2")]),
        ('["mac1", "mac2:4"]', [Host("mac1"), Host("mac2", 4)]),
        (
            '{"envs": [], "hosts": [{"ssh": "mac1", "ips": []}, {"ssh": "mac2"}]}',
            [Host("mac1"), Host("mac2")],
        ),
        (
            '["10.0.0.1:5000", "10.0.0.2:5000"]',
            [Host("10.0.0.1"), Host("10.0.0.2")],
        ),
        ('[["10.0.0.1:5", "10.0.1.1:6"], ["[fd00::2]:5"]]',
         [Host("10.0.0.1"), Host("fd00::2")]),
    ],
)  # fmt: skip
def test_formats(tmp_path, text, hosts):
    path = tmp_path / "hosts"
    path.write_text(text)
    assert list(hostfile.read(str(path)).hosts) == hosts


def test_all_of_mlx():
    text = json.dumps(
        {
            "backend": "jaccl",
            "envs": ["A=1", "B=x=y"],
            "hosts": [
                {"ssh": "mac1", "ips": ["10.0.0.1"], "rdma": [None, "rdma_en2"]},
                {"ssh": "mac2", "ips": ["10.0.0.2"], "rdma": [["rdma_en3"], None]},
            ],
        },
        indent=4,
    )
    found = hostfile.parse("hosts", text)
    assert found.backend == "jaccl"
    assert found.env == (("A", "1"), ("B", "x=y"))
    assert found.hosts[0].addresses == ("10.0.0.1",)
    assert found.hosts[0].rdma == (None, "rdma_en2")
    assert found.hosts[1].rdma == (("rdma_en3",), None)
    assert not found.hosts[0].counted


def test_several_addresses():
    (host,) = hostfile.parse("hosts", '[["10.0.0.1:5", "10.0.1.1:6"]]').hosts
    assert host.addresses == ("10.0.0.1", "10.0.1.1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "hosts names no host"),
        ("[]", "hosts names no host"),
        ("mac1 slot=2", "hosts line 1: 'slot=2'"),
        ("mac1\nmac1:x", "hosts line 2: host 'mac1:x'.*number of ranks"),
        ("mac1:0", "takes 1 to 65535"),
        ("mac1:99999999999999999999", "takes 1 to 65535"),
        ("mac1 slots=0", "takes 1 to 65535"),
        ("-oProxyCommand=x", "line 1: host '-oProxyCommand=x' is neither"),
        ("mac1;rm", "is neither a name nor an address"),
        ("[1]", "line 1 column 2: a host needs a name"),
        ("{", "line 1 column 2: this is not valid JSON"),
        ('{"a": 1}', "line 1 column 1: 'hosts' is missing"),
        ('{"hosts": 1}', "line 1 column 11: 'hosts' must be a list"),
        ('{"hosts": [],\n "envs": ["K"]}', "line 2 column 11: .*K=V"),
        ('{"hosts": [],\n "envs": [1]}', "line 2 column 11: .*K=V"),
        ('[\n "mac1",\n "mac1"]', "line 3 column 2: host 'mac1' is there twice"),
        ('[{"ssh": "-x"}]', "line 1 column 10: host '-x'"),
        ('[{"ssh": "a", "ips": ["b"]}]', "line 1 column 23: 'b' is no IP address"),
        ('[{"ssh": "a", "ips": "b"}]', "column 22: this is no list"),
        ("[[]]", "column 2: a host needs an address"),
        ('[{"ssh": "a", "rdma": [null, "x"]}]', "the matrix must be square"),
        ('[{"ssh": "a", "rdma": ["x"]}]', "host 'a' has a cable to itself"),
        (
            '[{"ssh": "a", "rdma": [null, "x"]},\n {"ssh": "b", "rdma": [null, null]}]',
            "line 1 column 30: host 'a' names 1 devices towards 'b' and that one 0",
        ),
        ("[" * 100000, "not valid JSON"),
    ],
)  # fmt: skip
def test_errors(text, says):
    with pytest.raises(LaunchError, match=says) as why:
        hostfile.parse("hosts", text)
    assert why.value.code == 2


def test_unreadable(tmp_path):
    with pytest.raises(LaunchError, match=r"cannot read the host file .*No such file"):
        hostfile.read(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0")
    with pytest.raises(LaunchError, match="not a text file"):
        hostfile.read(str(tmp_path / "binary"))


def test_lists():
    assert parse_list("a:2,b,a") == [Host("a", 3), Host("b", 1)]
    assert parse_list("fe80::1") == [Host("fe80::1", 1)]
    assert [host.counted for host in parse_list("a:2,b")] == [True, False]
    assert is_local("localhost")


# How long a busy machine takes says nothing about the code.
settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")

NAMES = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=12)


@given(st.dictionaries(NAMES, st.integers(1, 65535), min_size=1, max_size=8))
def test_any_hosts_in_any_format(slots):
    want = [Host(name, count) for name, count in slots.items()]
    lines = "\n".join(f"{name} slots={count}" for name, count in slots.items())
    short = "\n".join(f"{name}:{count}" for name, count in slots.items())
    assert list(hostfile.parse("f", lines).hosts) == want
    assert list(hostfile.parse("f", short).hosts) == want
    assert parse_list(short.replace("\n", ",")) == want


@given(st.integers(1, 6), st.data())
def test_written_is_read_again(tmp_path_factory, size, data):
    matrix: list[list] = [[None] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            cables = data.draw(st.integers(0, 3))
            for x, y in ((a, b), (b, a)):
                devices = tuple(f"rdma_en{y}{n}" for n in range(cables))
                matrix[x][y] = devices[0] if cables == 1 else devices or None
    hosts = [
        Host(f"mac{a}", addresses=(f"10.0.0.{a + 1}",), rdma=tuple(matrix[a]))
        for a in range(size)
    ]
    path = tmp_path_factory.mktemp("hosts") / "hosts.json"
    hostfile.write(str(path), hosts, "jaccl")
    found = hostfile.read(str(path))
    assert found.backend == "jaccl"
    for host, again in zip(hosts, found.hosts, strict=True):
        assert (host.name, host.addresses, host.rdma) == (
            again.name, again.addresses, again.rdma,
        )  # fmt: skip


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        found = hostfile.parse("f", text)
    except LaunchError as why:
        assert "f" in str(why) and "\n" not in str(why)
    else:
        assert found.hosts


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ssh", "ips", "rdma", "hosts", "envs", "backend"]), each
        )
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_read_or_refused(data):
    text = json.dumps(data)
    if text[:1] in "[{":
        test_any_text_is_read_or_refused.hypothesis.inner_test(text)
