# SPDX-License-Identifier: MIT
"""The start-up protocol: the server alone, and with real ranks."""

from __future__ import annotations

import pytest

from tbmpi.launch.pmi import KEYS_PER_RANK, ProtocolError, Server, Stage


def server(size: int = 2) -> Server:
    return Server(size, "kvs", tuple(range(size)), f"(vector,(0,1,{size}))")


def ask(it: Server, rank: int, line: str) -> str:
    replies = it.handle(rank, line.encode())
    assert [receiver for receiver, _ in replies] == [rank]
    return replies[0][1].decode()


def test_the_conversation_of_a_rank():
    it = server()
    assert ask(it, 1, "cmd=init pmi_version=1 pmi_subversion=1").endswith("rc=0\n")
    assert it.stage(1) is Stage.JOINED
    assert "vallen_max=1024" in ask(it, 1, "cmd=get_maxes")
    assert ask(it, 1, "cmd=get_appnum") == "cmd=appnum rc=0 appnum=1\n"
    assert ask(it, 1, "cmd=get_my_kvsname") == "cmd=my_kvsname rc=0 kvsname=kvs\n"
    assert ask(it, 1, "cmd=get_universe_size") == "cmd=universe_size rc=0 size=2\n"
    assert "rc=0" in ask(it, 1, "cmd=put kvsname=kvs key=card value=a=b c")
    assert ask(it, 0, "cmd=get kvsname=kvs key=card").endswith("value=a=b c\n")
    assert "(vector,(0,1,2))" in ask(
        it, 0, "cmd=get kvsname=kvs key=PMI_process_mapping"
    )
    assert it.handle(0, b"cmd=barrier_in") == []
    assert [rank for rank, _ in it.handle(1, b"cmd=barrier_in")] == [0, 1]
    assert ask(it, 1, "cmd=finalize") == "cmd=finalize_ack rc=0\n"
    assert it.stage(1) is Stage.FINALIZED


@pytest.mark.parametrize(
    "line",
    [
        "cmd=init pmi_version=2 pmi_subversion=0",
        "cmd=get kvsname=kvs key=none",
        "cmd=get kvsname=other key=PMI_process_mapping",
        "cmd=put kvsname=other key=a value=b",
        "cmd=put kvsname=kvs key= value=b",
        f"cmd=put kvsname=kvs key={'k' * 65} value=b",
        f"cmd=put kvsname=kvs key=a value={'v' * 1025}",
        "cmd=publish_name service=a port=b",
        "cmd=lookup_name service=a",
        "cmd=something_new",
    ],
)
def test_refusals_are_answers(line):
    assert " rc=0" not in ask(server(), 0, line)


def test_spawn_is_refused_after_its_last_line():
    it = server()
    for line in (b"mcmd=spawn", b"nprocs=1", b"execname=a"):
        assert it.handle(0, line) == []
    assert b"cmd=spawn_result rc=-1" in it.handle(0, b"endcmd")[0][1]
    assert "rc=0" in ask(it, 0, "cmd=get_appnum")


@pytest.mark.parametrize("line", [b"", b"hello", b"\xff\xfe", b"cmd=", b"cmd=a;b"])
def test_garbage_is_named(line):
    with pytest.raises(ProtocolError):
        server().handle(0, line)


def test_abort_keeps_the_first_code():
    it = server()
    assert it.handle(1, b"cmd=abort exitcode=42 message=it is over value=1") == []
    it.handle(0, b"cmd=abort exitcode=7")
    assert (it.aborted.rank, it.aborted.code) == (1, 42)
    assert it.aborted.message == "it is over value=1"


def test_the_space_is_bounded():
    it = server()
    for key in range(KEYS_PER_RANK):
        assert "rc=0" in ask(it, 0, f"cmd=put kvsname=kvs key=k{key} value=v")
    assert "too_many_keys" in ask(it, 0, "cmd=put kvsname=kvs key=more value=v")


def test_who_waits_for_whom():
    it = server(3)
    it.handle(0, b"cmd=barrier_in")
    assert it.stuck() is None
    it.leave(2)
    assert it.stuck() == (0, 2)


RING = """
    from pmi_client import Client
    me = Client()
    me.init()
    for round in range(3):
        key = f"card-{round}-"
        me.put(key + str(me.rank), "x" * 1000 + str(me.rank))
        me.barrier()
        for rank in range(me.size):
            assert me.get(key + str(rank))["value"].endswith("x" + str(rank))
        me.barrier()
    me.finalize()
"""


def test_ranks_swap_cards(launcher):
    done = launcher.run("-n", "6", *launcher.python(RING))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_second_program_in_one_rank(launcher):
    rank = " ".join(launcher.python(RING))
    done = launcher.run("-n", "2", "sh", "-c", f"{rank} && {rank}")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_rank_that_asks_and_does_not_listen(launcher):
    deaf = launcher.python(
        """
        import time
        from pmi_client import Client
        me = Client()
        me.init()
        if me.rank == 0:
            me._socket.settimeout(1)
            try:
                for _ in range(100000):
                    me.send("cmd=get_maxes")
            except TimeoutError:
                pass
            me.send = None
        else:
            for _ in range(100):
                me.ask("cmd=get_maxes")
                time.sleep(0.005)
        import os; os._exit(5 if me.rank else 6)
        """
    )
    done = launcher.run("-n", "2", *deaf)
    assert done.returncode in (5, 6)


@pytest.mark.parametrize("what", ["b'hello world\\n'", "b'x' * 10000"])
def test_garbage_ends_the_job(launcher, what):
    rank = launcher.python(
        f"""
        import os, time
        if os.environ["PMI_RANK"] == "1":
            os.write(int(os.environ["PMI_FD"]), {what})
        time.sleep(20)
        """
    )
    done = launcher.run("-n", "2", *rank)
    assert done.returncode == 1
    assert done.stderr.startswith(b"tbmpirun: rank 1 on ")
    assert b" sent " in done.stderr
