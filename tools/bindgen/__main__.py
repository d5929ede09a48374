# SPDX-License-Identifier: MIT
"""Makes the MPI surface from csrc/api: run `python3 tools/bindgen`.

With --check nothing is written; it fails if a file is not as it would be made.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import bindings
import header
import python
import table

ROOT = Path(__file__).resolve().parents[2]
OUTPUTS = {
    "csrc/include/mpi.h": header.mpi_h,
    "csrc/mpi/api.h": header.api_h,
    "csrc/gen/calls.c": bindings.calls_c,
    "csrc/gen/exports.txt": header.exports_txt,
    "csrc/gen/exports.map": header.exports_map,
    "csrc/gen/exports_darwin.txt": header.exports_darwin,
    "tbmpi/_gen/mpi.cdef": python.cdef,
    "tbmpi/_gen/table.h": python.table_h,
    "tbmpi/_gen/surface.json": python.surface_json,
}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="bindgen", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    try:
        api = table.load(ROOT / "csrc/api")
    except table.TableError as error:
        print(f"bindgen: {error}", file=sys.stderr)
        return 2
    texts = {name: make(api) for name, make in OUTPUTS.items()}
    texts |= bindings.bindings(api)
    stale = []
    for name, text in texts.items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    done = sum(op.implemented for op in api.operations)
    print(f"{done} of {len(api.operations)} operations implemented")
    if check and stale:
        print("bindgen: not as generated: " + ", ".join(stale), file=sys.stderr)
        print("bindgen: run python3 tools/bindgen", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
