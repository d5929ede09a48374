# SPDX-License-Identifier: MIT
"""Writes mpi.h, the internal prototypes and the export lists."""

from __future__ import annotations

from table import Api, Operation, Param, Section
from text import banner, wrap

TYPES = """\
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

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

REMOVED = """\
/*
 * Names that MPI 3.0 removed and old programs still use. They are no part of
 * the ABI: each is a few instructions in the program itself. Compile with
 * -DTBMPI_REMOVED_NAMES=0 to do without.
 */
#if !defined(TBMPI_REMOVED_NAMES)
#define TBMPI_REMOVED_NAMES 1
#endif
#if TBMPI_REMOVED_NAMES

#if defined(__cplusplus) || \\
    (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)
#define TBMPI_INLINE static inline
#else
#define TBMPI_INLINE static __inline__
#endif

typedef MPI_Comm_errhandler_function MPI_Handler_function;

TBMPI_INLINE int MPI_Address(void *location, MPI_Aint *address)
{
    return MPI_Get_address(location, address);
}

TBMPI_INLINE int MPI_Errhandler_create(MPI_Handler_function *handler_fn,
                                       MPI_Errhandler *errhandler)
{
    return MPI_Comm_create_errhandler(handler_fn, errhandler);
}

TBMPI_INLINE int MPI_Errhandler_get(MPI_Comm comm, MPI_Errhandler *errhandler)
{
    return MPI_Comm_get_errhandler(comm, errhandler);
}

TBMPI_INLINE int MPI_Errhandler_set(MPI_Comm comm, MPI_Errhandler errhandler)
{
    return MPI_Comm_set_errhandler(comm, errhandler);
}

TBMPI_INLINE int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lb;
    return MPI_Type_get_extent(datatype, &lb, extent);
}

TBMPI_INLINE int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, displacement, &extent);
}

TBMPI_INLINE int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *displacement)
{
    MPI_Aint lb = 0, extent = 0;
    int code = MPI_Type_get_extent(datatype, &lb, &extent);
    *displacement = lb + extent;
    return code;
}

TBMPI_INLINE int MPI_Type_hindexed(int count, int array_of_blocklengths[],
                                   MPI_Aint array_of_displacements[],
                                   MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    return MPI_Type_create_hindexed(count, array_of_blocklengths,
                                    array_of_displacements, oldtype, newtype);
}

TBMPI_INLINE int MPI_Type_hvector(int count, int blocklength, MPI_Aint stride,
                                  MPI_Datatype oldtype, MPI_Datatype *newtype)
{
    return MPI_Type_create_hvector(count, blocklength, stride, oldtype,
                                   newtype);
}

TBMPI_INLINE int MPI_Type_struct(int count, int array_of_blocklengths[],
                                 MPI_Aint array_of_displacements[],
                                 MPI_Datatype array_of_types[],
                                 MPI_Datatype *newtype)
{
    return MPI_Type_create_struct(count, array_of_blocklengths,
                                  array_of_displacements, array_of_types,
                                  newtype);
}

#undef TBMPI_INLINE
#endif
"""

API_HEAD = """\
#ifndef TB_MPI_API_H
#define TB_MPI_API_H

#include "base/base.h"
#include "include/mpi.h"

#include <string.h>

/*
 * An array of counts or displacements as the program passed it: of int (i) or
 * of 64-bit integers (c). At most one is not NULL; both are when the program
 * gave NULL. Read it with tb_count_at() only: in the bindings MPI_Aint arrays
 * come as c too, and the two types need not alias.
 */
struct tb_counts {
    const int *i;
    const MPI_Count *c;
};

_Static_assert(sizeof(MPI_Aint) == sizeof(MPI_Count), "64-bit addresses");

static inline bool tb_counts_given(struct tb_counts v)
{
    return v.i || v.c;
}

static inline MPI_Count tb_count_at(struct tb_counts v, MPI_Count k)
{
    MPI_Count value;
    if (v.i)
        return v.i[k];
    memcpy(&value, v.c + k, sizeof(value));
    return value;
}
"""

API_RULES = """\
/*
 * The implementations, one per operation. Each gets what the binding has
 * looked up and checked by the kinds in csrc/api/functions.txt; handles that
 * have no meaning in the call are NULL. Objects are borrowed: one that is kept
 * is retained. A result object belongs to the handle that the binding makes
 * of it. They are called with the global lock held, but for the nolock ones.
 */
"""


def guard(name: str) -> tuple[str, str]:
    """Opening and closing lines of an include guard."""
    return f"#ifndef {name}\n#define {name}\n", "#endif\n"


def pointer_type(text: str) -> str:
    """`char**` to `char **`."""
    stem = text.rstrip("*")
    stars = text[len(stem) :]
    return f"{stem} {stars}" if stars else stem


def section_lines(section: Section) -> list[str]:
    """One section of constants as C."""
    out = [f"/* {section.title} */"] if section.title else []
    tag = section.type.removeprefix("MPI_")
    if section.shape == "handle":
        out.append(f"typedef struct MPI_ABI_{tag} *{section.type};")
    if section.shape == "enum":
        name = section.type
        out.append(f"typedef enum {name} {{" if name else "enum {")
        rows = [f"    {n} = {v}," for n, v in section.values]
        out += [*rows[:-1], rows[-1].rstrip(","), f"}} {name};" if name else "};"]
        return out
    for name, value in section.values:
        if section.shape == "handle":
            value = f"(({section.type}){value})"
        elif section.shape == "cast":
            value = f"(({pointer_type(section.type)}){value})"
        out.append(f"#define {name} {value}")
    return out


def callback_lines(api: Api) -> list[str]:
    """The typedefs of callback functions."""
    out = ["/* callbacks */"]
    for op in api.callbacks:
        head, params = op.prototype(f"MPI_{op.name}", large=True)
        out.append(wrap(f"typedef {head}", params, ";"))
    for obj in ("Comm", "File", "Win", "Session"):
        old, new = f"MPI_{obj}_errhandler_fn", f"MPI_{obj}_errhandler_function"
        out.append(f"typedef {new} {old};")
    return out


def prototypes(api: Api, prefix: str) -> list[str]:
    """Prototypes of all functions."""
    out = []
    for op in api.operations:
        for name, large in op.forms():
            head, params = op.prototype(prefix + name, large)
            out.append(wrap(head, params, ";"))
    return out


def mpi_h(api: Api) -> str:
    """The public header."""
    top, end = guard("MPI_H_ABI")
    before = [s for s in api.sections if s.shape != "cast"]
    after = [s for s in api.sections if s.shape == "cast"]
    blocks = [banner("The C interface of the MPI 5.0 standard ABI.") + top, TYPES]
    blocks += ["\n".join(section_lines(s)) + "\n" for s in before]
    blocks.append("\n".join(callback_lines(api)) + "\n")
    blocks += ["\n".join(section_lines(s)) + "\n" for s in after]
    for title, prefix in (("functions", "MPI_"), ("profiling", "PMPI_")):
        blocks.append("\n".join([f"/* {title} */", *prototypes(api, prefix)]) + "\n")
    blocks.append(REMOVED)
    blocks.append("#if defined(__cplusplus)\n}\n#endif\n\n" + end)
    return "\n".join(blocks)


def inner_type(param: Param) -> list[str]:
    """How an implementation declares a parameter."""
    kind = param.kind
    if param.view:
        return [f"struct tb_counts {param.name}"]
    if param.out_view:
        return [f"MPI_Count *{param.name}"]
    if kind.object:
        stars = "**" if param.sigil == "^" else "*"
        return [f"struct {kind.object} {stars}{param.name}"]
    if param.callback:
        large = kind.large.replace("@", param.name + "_c")
        return [param.declare(large=False), large]
    return [param.declare(large=True)]


def inner_prototype(op: Operation) -> str:
    """Prototype of the implementation of an operation."""
    params = [text for p in op.params for text in inner_type(p)]
    if "form" in op.marks:
        params.append("bool large")
    result = op.returns if op.returns != "int" else "tb_err"
    return wrap(f"{result} {op.function}", params or ["void"], ";")


def api_h(api: Api) -> str:
    """Internal prototypes and numbers of the operations."""
    out = [banner("What the bindings call.") + API_HEAD]
    objects = dict.fromkeys(kind.object for kind in api.handles)
    out.append("\n".join(f"struct {name};" for name in objects) + "\n")
    out.append(
        "/* Numbers of the operations, as on the job board, and their names. */\n"
        "enum {\n    TB_CALL_NONE,\n"
        + "".join(f"    TB_CALL_{op.name},\n" for op in api.operations)
        + "    TB_CALL_LIMIT\n};\n"
        "extern const char *const tb_call_name[TB_CALL_LIMIT];\n"
    )
    done, lines = set(), []
    for op in api.operations:
        if op.function in done or not op.implemented:
            continue
        if "cast" in op.marks or "inline" in op.marks:
            continue
        done.add(op.function)
        lines.append(inner_prototype(op))
    out.append(API_RULES + "\n".join(lines) + "\n\n#endif\n")
    return "\n".join(out)


def exported(api: Api) -> list[str]:
    """All exported names."""
    names = [name for op in api.operations for name, _ in op.forms()]
    return sorted(f"{p}MPI_{n}" for n in names for p in ("", "P"))


def exports_txt(api: Api) -> str:
    """One name a line."""
    return "".join(f"{name}\n" for name in exported(api))


def exports_map(api: Api) -> str:
    """For ld's --version-script. No version node: the ABI has no versions."""
    rows = "".join(f"    {name};\n" for name in exported(api))
    return "{\n  global:\n" + rows + "  local:\n    *;\n};\n"


def exports_darwin(api: Api) -> str:
    """For ld64's -exported_symbols_list."""
    return "".join(f"_{name}\n" for name in exported(api))
