# SPDX-License-Identifier: MIT
"""Where HPL comes from, and what is said when it does not come."""

import hashlib
import io
import tarfile
import urllib.error

import pytest

from tbmpi.hpl import debian, obtain
from tbmpi.hpl.errors import HplError
from tbmpi.hpl.machines import Machine, machine_from, parse_size

DEB822 = """\
# a comment
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://vendor.example/tools
Suites: nodistro
Components: main
"""
ONE_LINE = """\
deb [signed-by=/k.gpg arch=amd64] http://mirror.example/debian bookworm main  # x
deb http://mirror.example/debian-security bookworm-security main
# deb http://mirror.example/old bookworm main
deb http://vendor.example/apt bookworm stable
"""


def hpl_tree(folder, text=""):
    """Write what is recognised as HPL."""
    (folder / "include").mkdir(parents=True)
    (folder / "include" / "hpl.h").touch()
    info = folder / "testing" / "ptest" / "HPL_pdinfo.c"
    info.parent.mkdir(parents=True)
    info.write_text(text)
    return folder


def test_deb822_entries_become_source_entries():
    text = debian.source_entries(DEB822, "bookworm", deb822=True)
    assert text.splitlines()[0] == "Types: deb-src"
    assert "Signed-By: /usr/share/keyrings" in text
    assert "vendor" not in text


def test_one_line_entries_become_source_entries():
    assert debian.source_entries(ONE_LINE, "bookworm", deb822=False) == (
        "deb-src [signed-by=/k.gpg arch=amd64] http://mirror.example/debian "
        "bookworm main"
    )


def test_without_apt_the_message_names_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HplError, match=r"no apt-get .* hpcc_\*\.orig\.tar"):
        debian.fetch_source("hpcc", tmp_path)


def test_a_tarball_in_the_cache_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    kept = tmp_path / "hpcc_1.5.0.orig.tar.gz"
    kept.touch()
    assert debian.fetch_source("hpcc", tmp_path) == kept
    assert obtain.find_origin("auto", tmp_path) == kept


def test_a_wrong_checksum_is_refused_and_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(
        obtain.urllib.request, "urlopen", lambda *a, **k: io.BytesIO(b"not HPL")
    )
    found = hashlib.sha256(b"not HPL").hexdigest()
    with pytest.raises(HplError, match=f"SHA-256 is {found}"):
        obtain.find_origin("netlib", tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_network_and_no_apt_names_both(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(obtain.urllib.request, "urlopen", refuse)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HplError, match=r"--source.*no route.*no apt-get"):
        obtain.find_origin("auto", tmp_path)


def test_a_missing_path_is_named(tmp_path):
    with pytest.raises(HplError, match="/nowhere: no such file"):
        obtain.find_origin("/nowhere", tmp_path)


@pytest.mark.parametrize("text, inside", [("", False), ('"hpccinf.txt"', True)])
def test_a_folder_is_copied_and_told_apart(tmp_path, text, inside):
    origin = hpl_tree(tmp_path / "my-hpl", text)
    source = obtain.unpack(origin, tmp_path / "build")
    assert source.inside_hpcc is inside
    assert source.tree.is_relative_to(tmp_path / "build")


def test_a_tarball_is_unpacked(tmp_path):
    hpl_tree(tmp_path / "hpl-2.3")
    with tarfile.open(tmp_path / "hpl.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "hpl-2.3", "hpl-2.3")
    source = obtain.unpack(tmp_path / "hpl.tar.gz", tmp_path / "build")
    assert source.tree.name == "hpl-2.3"


def test_what_holds_no_hpl_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(HplError, match="holds no HPL"):
        obtain.unpack(tmp_path / "empty", tmp_path / "build")
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(b"\x1f\x8bnot really")
    with pytest.raises(HplError, match="cannot be unpacked"):
        obtain.unpack(broken, tmp_path / "build")


def test_another_hpcc_is_not_patched_blindly(tmp_path):
    tree = hpl_tree(tmp_path / "hpl", '#define INFILE "other.txt"')
    with pytest.raises(HplError, match=r"not as in hpcc 1\.5"):
        obtain.as_program(tree)


def test_machines_from_the_command_line():
    assert machine_from("m1,memory=64G,cores=8,slots=2") == Machine(
        "m1", 64 * 2**30, 8, slots=2
    )
    assert machine_from("localhost,memory=1T").memory == 2**40
    for text in ("m1,memory=lots,cores=8", "m1,memory=0G,cores=8", "m1,cpus=3"):
        with pytest.raises(HplError, match=f"--host {text}"):
            machine_from(text)


def test_a_silent_machine_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(HplError, match=r"Permission denied.*--host m9,memory=64G"):
        machine_from("m9")


def test_a_machine_is_asked_by_ssh(tmp_path, monkeypatch):
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho Darwin 549755813888 24\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert machine_from("m9") == Machine("m9", 2**39, 24, "Darwin")


def test_sizes():
    assert parse_size("1.5G", "x") == 3 * 2**29
    assert parse_size("512GB", "x") == 512 * 2**30
    assert parse_size("12", "x") == 12
