# SPDX-License-Identifier: MIT
"""Writes what the Python package is built from."""

from __future__ import annotations

import json

from header import callback_lines, section_lines
from table import Api, Operation
from text import GENERATED, banner, wrap

CDEF_TYPES = """\
typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef struct {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;
"""

TABLE_HEAD = """\
#ifndef TBMPI_TABLE_H
#define TBMPI_TABLE_H

#define TBMPI_REMOVED_NAMES 0
#include "mpi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
"""

TABLE_LOAD = """\
/*
 * Fills the table from a library that dlopen() gave. Returns how many functions
 * it lacks; their names go to `missing`, which has room for TB_TABLE_SIZE, and
 * their slots stay NULL: calling one is a crash, so the caller must not.
 */
static inline int tb_table_load(void *dl, const char **missing)
{
    int lacking = 0;
    for (size_t k = 0; k < TB_TABLE_SIZE; k++) {
        void *symbol = dlsym(dl, tb_table_slots[k].name);
        if (!symbol)
            missing[lacking++] = tb_table_slots[k].name;
        memcpy((char *)&tb_table + tb_table_slots[k].offset, &symbol,
               sizeof(symbol));
    }
    return lacking;
}
"""


def large_form(op: Operation) -> str:
    """Name of the one function of an operation that Python calls."""
    return f"MPI_{op.forms()[-1][0]}"


def constant_lines(api: Api) -> list[str]:
    """Constants as cffi wants them: the C compiler supplies the values."""
    out, types = [], {}
    for section in api.sections:
        if section.shape == "handle":
            out.append(section_lines(section)[bool(section.title)])
            types |= {name: section.type for name, _ in section.values}
    for section in api.sections:
        for name, value in section.values:
            if section.shape in ("handle", "alias"):
                out.append(f"static const {types.get(name) or types[value]} {name};")
            elif section.shape == "define":
                out.append(f"#define {name} {value}")
        if section.shape == "enum":
            out += section_lines(section)[bool(section.title) :]
    out += callback_lines(api)[1:]
    for section in api.sections:
        if section.shape == "cast":
            stem = section.type.rstrip("*")
            stars = section.type[len(stem) :]
            for name, _ in section.values:
                kind = f"{stem} {stars}const" if stars else f"const {stem}"
                out.append(f"static {kind} {name};")
    return out


def cdef(api: Api) -> str:
    """Declarations for cffi."""
    out = ["/* SPDX-License-Identifier: MIT */", f"/* {GENERATED} */", CDEF_TYPES]
    out += constant_lines(api)
    for op in api.operations:
        head, params = op.prototype(large_form(op), large=True)
        out.append(wrap(head, params, ";"))
    return "\n".join(out) + "\n"


def table_h(api: Api) -> str:
    """A table of function pointers under the functions' own names."""
    members, slots, macros = [], [], []
    for op in api.operations:
        name = large_form(op)
        slot = name.removeprefix("MPI_")
        head, params = op.prototype(f"(*{slot})", large=True)
        members.append(wrap(f"    {head}", params, ";"))
        slots.append(f"    TB_SLOT({slot}),")
        macros.append(f"#define {name} (tb_table.{slot})")
    blocks = [
        banner("The MPI functions that Python calls, bound at run time.") + TABLE_HEAD,
        "static struct tb_table {\n" + "\n".join(members) + "\n} tb_table;\n",
        '#define TB_SLOT(f) {"MPI_" #f, offsetof(struct tb_table, f)}\n'
        "static const struct {\n    const char *name;\n    size_t offset;\n"
        "} tb_table_slots[] = {\n" + "\n".join(slots) + "\n};\n#undef TB_SLOT\n",
        f"#define TB_TABLE_SIZE {len(slots)}\n",
        TABLE_LOAD,
        "\n".join(macros) + "\n",
        "#endif\n",
    ]
    return "\n".join(blocks)


def surface_json(api: Api) -> str:
    """Operations by their number on the job board, from 1."""
    rows = {f"MPI_{op.name}": op.implemented for op in api.operations}
    return json.dumps(rows, indent=0) + "\n"
