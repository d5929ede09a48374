# SPDX-License-Identifier: MIT
"""Topologies: from their names and from files, and as pictures."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET

import pytest
from rich.console import Console

from tbmpi.launch import drawing, nodes, topology
from tbmpi.launch.errors import LaunchError
from tbmpi.launch.json_lines import line_of


@pytest.mark.parametrize(
    ("name", "hosts", "pairs"),
    [
        ("mesh:2", 2, "01"),
        ("mesh:4", 4, "01 02 03 12 13 23"),
        ("ring:3", 3, "01 12 02"),
        ("ring:4", 4, "01 12 23 03"),
        ("line:4", 4, "01 12 23"),
        ("star:4", 4, "01 02 03"),
        ("mesh:2x2", 2, "01 01"),
        ("ring:3x2", 3, "01 01 12 12 02 02"),
    ],
)
def test_names(name, hosts, pairs):
    there = topology.find(name)
    assert there.hosts == tuple(f"mac{number}" for number in range(hosts))
    assert " ".join(f"{a}{b}" for a, b in (c.pair for c in there.cables)) == pairs
    assert [cable.number for cable in there.cables] == list(range(len(there.cables)))
    for host in range(hosts):
        devices = [port.device for port in there.ports(host)]
        assert devices == [f"rdma_en{2 + at}" for at in range(len(devices))]
    addresses = [end.address for cable in there.cables for end in cable.ends]
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("169.254.") for address in addresses)
    assert there.cables[0].a.gid == "::ffff:169.254.1.1"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mesh", "no such topology; there are mesh:N"),
        ("torus:4", "no such topology"),
        ("mesh:x", "no such topology"),
        ("mesh:1", "a mesh has 2 to 16 Macs"),
        ("ring:2", "a ring has 3 to 16 Macs"),
        ("mesh:17", "a mesh has 2 to 16 Macs"),
        ("mesh:4x0", "1 to 4 cables join two Macs, not 0"),
        ("mesh:2x999999999", "1 to 4 cables"),
        ("mesh:16x4", "480 cables are too many"),
        ("./nothing.json", "cannot read the topology ./nothing.json: No such file"),
    ],
)
def test_names_that_mean_nothing(name, says):
    with pytest.raises(LaunchError) as caught:
        topology.find(name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def written(folder, text: str) -> str:
    path = folder / "topo.json"
    path.write_text(text)
    return str(path)


def test_a_file(tmp_path):
    path = written(
        tmp_path,
        """{
        "hosts": ["studio", "mini", "laptop"],
        "cables": [["studio", "mini"], ["laptop:rdma_en7", "mini:rdma_en2"]],
        "fabric": {"latency": "8us", "rate": 4.5}
        }""",
    )
    there = topology.find(path)
    assert there.hosts == ("studio", "mini", "laptop")
    assert [cable.pair for cable in there.cables] == [(0, 1), (1, 2)]
    # The second cable has taken rdma_en2 of the mini by its name.
    ends = [(end.host, end.device) for c in there.cables for end in c.ends]
    assert ends == [(0, "rdma_en2"), (1, "rdma_en3"), (1, "rdma_en2"), (2, "rdma_en7")]
    assert there.settings == {"latency": "8us", "rate": "4.5"}
    assert there.host_number("mini") == there.host_number("1") == 1
    assert there.host_number("9") is there.host_number("who") is None


def test_the_host_file_of_mlx(tmp_path):
    hosts = [
        {"ssh": "me@m1.local", "ips": [], "rdma": [None, "rdma_en5", ["rdma_en3"]]},
        {"ssh": "m2", "ips": [], "rdma": ["rdma_en5", None, ["rdma_en2", "rdma_en4"]]},
        {"ssh": "m3", "ips": [], "rdma": ["rdma_en3", ["rdma_en4", "rdma_en5"], None]},
    ]
    for data in (hosts, {"backend": "jaccl", "envs": [], "hosts": hosts}):
        there = topology.find(written(tmp_path, json.dumps(data)))
        assert there.hosts == ("m1.local", "m2", "m3")
        found = [(*c.pair, c.a.device, c.b.device) for c in there.cables]
        assert found == [
            (0, 1, "rdma_en5", "rdma_en5"),
            (0, 2, "rdma_en3", "rdma_en3"),
            (1, 2, "rdma_en2", "rdma_en4"),
            (1, 2, "rdma_en4", "rdma_en5"),
        ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"hosts": ["a", "b"],\n "cables": [', "line 2: not valid JSON"),
        ("3", "line 1: a topology is an object with 'hosts' and 'cables'"),
        ('["a", "b"]', "a list is MLX's format"),
        ('{"hosts": ["a"], "cables": []}', "line 1: hosts: 2 to 16 hosts, not 1"),
        ('{"hosts": ["a", "b"]}', "cables: a list is needed"),
        ('{"hosts": ["a", "b"],\n"cabels": []}', "line 2: cabels: not known"),
        (
            '{"hosts": ["a",\n"b c"], "cables": []}',
            "line 2: hosts[1]: a host's name has",
        ),
        ('{"hosts": ["a",\n"a"], "cables": []}', "line 2: hosts[1]: the host 'a' is"),
        (
            '{"hosts": ["a", "b"],\n"cables": [["a", "b"],\n["a"]]}',
            "line 3: cables[1]: a cable has two ends",
        ),
        (
            '{"hosts": ["a", "b"], "cables": [["a", "c"]]}',
            "cables[0][1]: 'c' is not among the hosts",
        ),
        ('{"hosts": ["a", "b"], "cables": [["a", 7]]}', "cables[0][1]: '7' is not"),
        ('{"hosts": ["a", "b"], "cables": [["a", "a"]]}', "both ends are at 'a'"),
        ('{"hosts": ["a", "b"], "cables": [["a:", "b"]]}', "no name of a device"),
        (
            '{"hosts": ["a", "b"], "cables": [["a:x", "b"],\n["b", "a:x"]]}',
            "line 2: cables[1]: x of 'a' has cable 0 already",
        ),
        ('{"hosts": ["a", "b"], "cables": []}', "no cables lead from a to b"),
        (
            json.dumps({"hosts": ["a", "b"], "cables": [["a", "b"]] * 5}),
            "5 cables between a and b are too many",
        ),
        (
            '{"hosts": ["a", "b"], "cables": [["a", "b"]],\n"fabric": {"x": [1]}}',
            "line 2: fabric.x: a switch is set to one word",
        ),
        ('[{"ssh": "a"}, {"ssh": "b"}]', "[0].rdma: a list of 2 is needed"),
        (
            '[{"ssh": "a", "rdma": [null, "x"]},\n{"ssh": "b", "rdma": [null, null]}]',
            "1 devices of 'a' towards 'b', 0 the other way",
        ),
        (
            '[{"ssh": "a", "rdma": ["x", "y"]}, {"ssh": "b", "rdma": ["y", null]}]',
            "[0].rdma[0]: null is needed",
        ),
        (
            '[{"ssh": "a", "rdma": [null, ["x", "x"]]},\n'
            '{"ssh": "b", "rdma": [["y", "z"], null]}]',
            "[0].rdma: x is there twice",
        ),
    ],
)
def test_files_that_are_wrong(tmp_path, text, says):
    path = written(tmp_path, text)
    with pytest.raises(LaunchError) as caught:
        topology.find(path)
    assert path in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "topo.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LaunchError, match="not a text file"):
        topology.find(str(path))


@pytest.mark.parametrize(
    ("where", "line"),
    [([], 1), (["a"], 2), (["a", 1], 4), (["a", 1, "c"], 5), (["b"], 7), (["z"], 1)],
)
def test_lines_of_values(where, line):
    text = '{\n"a": ["],}",\n\n{\n"c": null}\n],\n"b": {"a": 1}}'
    json.loads(text)
    assert line_of(text, where) == line


SHAPES = ["mesh:4", "ring:5", "line:4", "star:4", "mesh:2x2", "mesh:2x3", "mesh:8"]


def notes_of(there: topology.Topology) -> list[str]:
    return [f"ranks {2 * at}-{2 * at + 1}" for at in range(len(there.hosts))]


def shown(there: topology.Topology, width: int = 100) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(drawing.Picture(there, notes_of(there)))
    return console.export_text()


@pytest.mark.parametrize("name", SHAPES)
def test_pictures_show_all_macs_and_cables(name):
    there = topology.find(name)
    text = shown(there)
    for host, note in zip(there.hosts, notes_of(there), strict=True):
        assert host in text
        assert note in text
    for cable in there.cables:
        assert f"cable {cable.number} " in text
    picture = text.split("cable 0 ")[0]
    assert "╭" in picture
    assert max(map(len, picture.splitlines())) <= drawing.WIDTH


@pytest.mark.parametrize("width", [50, 100])
def test_what_cannot_be_drawn_is_listed(width):
    there = topology.find("ring:16" if width == 100 else "mesh:4")
    text = shown(there, width)
    assert "╭" not in text
    assert "mac3: ranks 6-7" in text


@pytest.mark.parametrize("name", SHAPES)
def test_svg(name):
    there = topology.find(name)
    root = ET.fromstring(drawing.svg(there, notes_of(there)))
    space = "{http://www.w3.org/2000/svg}"
    width, height = (float(root.get(side)) for side in ("width", "height"))
    assert len(root.findall(f"{space}line")) == len(there.cables)
    macs = [box for box in root.findall(f"{space}rect") if box.get("class") == "mac"]
    assert len(macs) == len(there.hosts)
    for box in macs:
        assert 0 <= float(box.get("x")) <= width - float(box.get("width"))
        assert 0 <= float(box.get("y")) <= height - float(box.get("height"))
    ports = [text for text in root.iter(f"{space}text") if text.get("class") == "port"]
    assert len(ports) == 2 * len(there.cables)


def test_svg_escapes_names(tmp_path):
    there = topology.Topology("a<b", ("x", "y"), topology.find("mesh:2").cables, {})
    ET.fromstring(drawing.svg(there, ["<&>", ""]))


@pytest.mark.parametrize(
    ("size", "per_node", "blocks"),
    [
        (4, None, "0 1 2 3"),
        (8, None, "01 23 45 67"),
        (7, 2, "01 23 45 6"),
        (5, None, "01 23 4 "),
        (2, None, "0 1  "),
        (3, 3, "012   "),
    ],
)
def test_ranks_are_dealt_in_blocks(size, per_node, blocks):
    placed = nodes.place(("a", "b", "c", "d"), size, per_node)
    assert ["".join(map(str, node.ranks)) for node in placed] == blocks.split(" ")


def test_too_many_ranks():
    with pytest.raises(LaunchError, match="5 ranks do not fit on 2 machines"):
        nodes.place(("a", "b"), 5, 2)


def test_machines_in_the_words_of_pmi():
    def mapping(size, per_node=None, hosts="abcd"):
        return nodes.process_mapping(nodes.place(tuple(hosts), size, per_node))

    assert mapping(4, hosts="a") == "(vector,(0,1,4))"
    assert mapping(8) == "(vector,(0,4,2))"
    assert mapping(7) == "(vector,(0,3,2),(3,1,1))"
    assert mapping(2) == "(vector,(0,2,1))"
