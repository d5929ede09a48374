# SPDX-License-Identifier: MIT
"""Runs one program on tbmpi and on MPICH, and says where they differ.

    TBMPI_ORACLE=/where/pip/put/mpich python tests/python/oracle PROGRAM.json [WORDS...]

WORDS are for tbmpirun, such as --sim ring:4. PROGRAM.json is what a failing test
has printed; - reads it from standard input.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from oracle_engines import difference, mpich, ours


def main(argv: list[str]) -> int:
    folder = os.environ.get("TBMPI_ORACLE")
    if not argv or not folder:
        print(__doc__)
        return 2
    text = sys.stdin.read() if argv[0] == "-" else Path(argv[0]).read_text()
    program = json.loads(text)
    answers = []
    for engine in (
        ours(program["ranks"], argv[1:]),
        mpich(program["ranks"], Path(folder)),
    ):
        answers.append(engine.run(program))
        engine.close()
        print(f"{engine.name}:")
        for rank, lines in enumerate(answers[-1]):
            print("\n".join(f"  rank {rank} {line}" for line in lines))
    found = difference(*answers)
    print(found or "no difference")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
