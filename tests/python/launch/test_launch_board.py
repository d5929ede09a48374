# SPDX-License-Identifier: MIT
"""The job's shared memory, and what can be read from it."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
from pathlib import Path

import pytest

from tbmpi._gen import segment as layout
from tbmpi.launch import report, segment
from tbmpi.launch.board import Board, Note, call_name, operations, rank_list
from tbmpi.launch.errors import LaunchError

ROOT = Path(__file__).resolve().parents[3]


def test_the_segment_is_whole_private_and_nameless():
    memory = segment.Segment(3)
    try:
        status = os.fstat(memory.fd)
        assert status.st_size == 3 * layout.SEGMENT_PER_RANK
        assert status.st_mode & 0o777 == 0o600
        assert status.st_nlink == 0 or not Path("/proc").exists()
        assert memory.fd >= segment.FIRST_DESCRIPTOR
        assert not os.get_inheritable(memory.fd)
        head = struct.unpack_from("=QII", memory.view, 0)
        assert head == (layout.SEGMENT_MAGIC, 3, os.getpid())
        if Path("/proc").exists():
            assert status.st_blocks * 512 >= status.st_size
    finally:
        memory.close()


def test_too_little_memory_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(segment.layout, "SEGMENT_PER_RANK", 1 << 50)
    with pytest.raises(LaunchError) as caught:
        segment.Segment(2)
    assert "2 ranks need" in str(caught.value)
    assert caught.value.code == 1


def test_the_layout_is_that_of_the_header(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler, "a C compiler is needed"
    fields = ["pid", "state", "call", "peer", "tag", "polls", "since", "code", "reason"]
    checks = [
        f"_Static_assert(offsetof(struct tb_note, {field}) == "
        f'{getattr(layout, "NOTE_" + field.upper())}, "{field}");'
        for field in fields
    ]
    checks += [
        f'_Static_assert(sizeof(struct tb_note) == {layout.NOTE_BYTES}, "note");',
        '_Static_assert(offsetof(struct tb_segment_head, magic) == 0, "magic");',
        '_Static_assert(offsetof(struct tb_segment_head, ranks) == 8, "ranks");',
        '_Static_assert(offsetof(struct tb_segment_head, maker) == 12, "maker");',
    ]
    source = tmp_path / "layout.c"
    source.write_text('#include "net/segment.h"\n' + "\n".join(checks) + "\n")
    subprocess.run(
        [compiler, "-std=c11", "-fsyntax-only", f"-I{ROOT}/csrc", str(source)],
        check=True,
        timeout=60,
    )


def test_call_names_are_those_of_the_library():
    text = (ROOT / "csrc/gen/calls.c").read_text()
    names = re.findall(r'\[TB_CALL_\w+\] = "(MPI_\w+)"', text)
    assert [call_name(number) for number in range(1, len(names) + 1)] == names
    assert len(operations()) == len(names)
    assert call_name(99999) == "operation 99999"


def board(*notes: Note) -> Board:
    memory = bytearray(layout.SEGMENT_HEAD + len(notes) * layout.NOTE_BYTES)
    for rank, note in enumerate(notes):
        at = layout.SEGMENT_HEAD + rank * layout.NOTE_BYTES
        struct.pack_into("=IIIii", memory, at, note.pid, note.state, note.call,
                         note.peer, note.tag)  # fmt: skip
        struct.pack_into("=Q", memory, at + layout.NOTE_SINCE, note.since)
        text = note.reason.encode()
        start = at + layout.NOTE_REASON
        memory[start : start + len(text)] = text
    return Board(bytes(memory), len(notes))


RUNNING = layout.STATE_RUNNING


def test_reading_notes():
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    wrote = (Note(7, RUNNING, 5, 3, 9, now, 0, "why\nso"), Note())
    read = board(*wrote).notes()
    assert read[0].reason == "why so"
    assert read[0].waiting_for() == "with rank 3, tag 9"
    assert 0 <= read[0].waiting_since() < 10
    assert not read[1].present


def test_reading_a_reason_that_fills_its_room():
    text = "x" * layout.NOTE_REASON_BYTES
    assert board(Note(1, RUNNING, reason=text)).note(0).reason == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([0], "rank 0"), ([3, 1, 2, 7], "ranks 1-3, 7"), (range(300), "ranks 0-299")],
)
def test_rank_lists(ranks, text):
    assert rank_list(ranks) == text


def test_the_line_about_a_death():
    failure = report.by_exit(2, -9, finalized=False)
    notes = [
        Note(1, RUNNING, 0),
        Note(1, layout.STATE_FINALIZED),
        Note(1, RUNNING, 7, layout.PEER_ANY, -2, 5),
        Note(),
        Note(1, RUNNING, 0),
    ]
    line = report.death_line(failure, "mac1", notes)
    assert line.startswith("tbmpirun: rank 2 on mac1 was killed by signal 9 (SIGKILL")
    assert f" in {call_name(7)} (with any rank); " in line
    assert line.endswith("; ranks 0, 4 were outside MPI; rank 1 was past MPI_Finalize")


def test_many_groups_stay_one_short_line():
    failure = report.by_exit(0, 3, finalized=False)
    notes = [Note(1, RUNNING, call) for call in range(20)]
    line = report.death_line(failure, "mac1", notes)
    assert line.endswith("15 other groups elsewhere")
    assert len(line) < 300


def test_ranks_without_a_board_are_not_mentioned():
    failure = report.by_exit(1, 3, finalized=False)
    line = report.death_line(failure, "mac1", [Note(), Note()])
    assert line == "tbmpirun: rank 1 on mac1 ended with exit code 3"


def test_a_reason_that_was_cut_says_so():
    full = "x" * (layout.NOTE_REASON_BYTES - 1)
    assert report.by_abort(1, 6, full).what.endswith("xx...")
    assert report.by_abort(1, 6, "short").what == "ended the job with code 6: short"
    assert report.by_abort(1, 6, "MPI_Abort(6)").what == "called MPI_Abort with code 6"
