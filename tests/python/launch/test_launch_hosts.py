# SPDX-License-Identifier: MIT
"""Host lists in the formats of Open MPI, Hydra and MLX."""

from __future__ import annotations

import pytest

from tbmpi.launch.errors import LaunchError
from tbmpi.launch.hosts import Host, parse_list, read_file


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (
            "mac1 slots=2\nmac2 slots=4 max-slots=8 # fast\n\n",
            [Host("mac1", 2), Host("mac2", 4)],
        ),
        ("mac1\nmac1\n", [Host("mac1", 2)]),
        ("# all\nmac1:3\nmac2\n", [Host("mac1", 3), Host("mac2", 1)]),
        ('["mac1", "mac2"]', [Host("mac1", 1), Host("mac2", 1)]),
        (
            '{"envs": [], "hosts": [{"ssh": "mac1", "ips": []}, {"ssh": "mac2"}]}',
            [Host("mac1", 1), Host("mac2", 1)],
        ),
    ],
)
def test_formats(tmp_path, text, hosts):
    path = tmp_path / "hosts"
    path.write_text(text)
    assert read_file(str(path)) == hosts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no host"),
        ("mac1 slot=2", "line 1: 'slot=2'"),
        ("[1]", "a host needs a name"),
        ("{", "not valid JSON"),
        ("mac1:x", "number of ranks"),
    ],
)
def test_errors(tmp_path, text, says):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(LaunchError, match=says):
        read_file(str(path))


def test_lists():
    assert parse_list("a:2,b,a") == [Host("a", 3), Host("b", 1)]
    assert parse_list("fe80::1") == [Host("fe80::1", 1)]
