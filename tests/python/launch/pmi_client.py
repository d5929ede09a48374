# SPDX-License-Identifier: MIT
"""A PMI-1 client and a board writer in plain Python, for ranks in tests."""

from __future__ import annotations

import mmap
import os
import socket
import struct

from tbmpi._gen import segment as layout


class Client:
    """Speaks the start-up protocol as a library would."""

    def __init__(self) -> None:
        self.rank = int(os.environ["PMI_RANK"])
        self.size = int(os.environ["PMI_SIZE"])
        self._socket = socket.socket(fileno=int(os.environ["PMI_FD"]))
        self._file = self._socket.makefile("rb")
        self.kvsname = ""

    def send(self, line: str) -> None:
        self._socket.sendall(line.encode() + b"\n")

    def receive(self) -> dict[str, str]:
        line = self._file.readline().decode().rstrip("\n")
        head, _, value = line.partition(" value=")
        words = dict(word.split("=", 1) for word in head.split())
        return {**words, "value": value}

    def ask(self, line: str) -> dict[str, str]:
        self.send(line)
        return self.receive()

    def init(self) -> None:
        assert self.ask("cmd=init pmi_version=1 pmi_subversion=1")["rc"] == "0"
        self.kvsname = self.ask("cmd=get_my_kvsname")["kvsname"]

    def put(self, key: str, value: str) -> dict[str, str]:
        return self.ask(f"cmd=put kvsname={self.kvsname} key={key} value={value}")

    def get(self, key: str) -> dict[str, str]:
        return self.ask(f"cmd=get kvsname={self.kvsname} key={key}")

    def barrier(self) -> None:
        assert self.ask("cmd=barrier_in")["cmd"] == "barrier_out"

    def finalize(self) -> None:
        assert self.ask("cmd=finalize")["cmd"] == "finalize_ack"


class Note:
    """This rank's note on the job board."""

    def __init__(self, rank: int) -> None:
        fd = int(os.environ["TBMPI_SHM_FD"])
        self._memory = mmap.mmap(fd, os.fstat(fd).st_size)
        self._at = layout.SEGMENT_HEAD + rank * layout.NOTE_BYTES
        self.write(layout.NOTE_PID, "I", os.getpid())
        self.write(layout.NOTE_STATE, "I", layout.STATE_RUNNING)
        self.write(layout.NOTE_PEER, "i", layout.PEER_NONE)

    def write(self, offset: int, kind: str, value: int) -> None:
        struct.pack_into("=" + kind, self._memory, self._at + offset, value)

    def call(self, number: int, peer: int = layout.PEER_NONE, tag: int = -1) -> None:
        self.write(layout.NOTE_PEER, "i", peer)
        self.write(layout.NOTE_TAG, "i", tag)
        self.write(layout.NOTE_SINCE, "Q", _now())
        self.write(layout.NOTE_CALL, "I", number)

    def reason(self, text: str) -> None:
        raw = text.encode()[: layout.NOTE_REASON_BYTES - 1] + b"\0"
        start = self._at + layout.NOTE_REASON
        self._memory[start : start + len(raw)] = raw


def _now() -> int:
    import time

    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
