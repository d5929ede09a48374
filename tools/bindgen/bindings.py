# SPDX-License-Identifier: MIT
"""Writes the bindings: PMPI_X does the work, the weak MPI_X forwards to it."""

from __future__ import annotations

from itertools import groupby

from table import Api, Operation, Param
from text import banner, wrap

HEAD = """\
#pragma GCC visibility push(default)
#include "include/mpi.h"
#pragma GCC visibility pop

#include "mpi/api.h"
#include "mpi/binding.h"
#include "mpi/check.h"
#include "mpi/objects.h"

/* A stub reads no more of its arguments than it needs to find the handler. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
"""

ERROR_OBJECTS = ("tb_comm", "tb_win", "tb_file", "tb_session")
CONDITIONS = {
    "root": "tb_is_root({comm}, root)",
    "leaf": "tb_is_leaf({comm}, root) && {buffer} != MPI_IN_PLACE",
    "own": "{buffer} != MPI_IN_PLACE",
}


class Body:
    """The statements of one operation."""

    def __init__(self, op: Operation, nulls: dict[str, str]) -> None:
        self.op = op
        self.nulls = nulls
        self.lines: list[str] = []
        self.target = self.find_target()
        comms = [p for p in op.params if p.kind.object == "tb_comm"]
        self.comm = f"{comms[0].name}_" if comms else "NULL"

    def find_target(self) -> Param | None:
        """The parameter whose error handler is called."""
        for obj in ERROR_OBJECTS:
            if "on=file" in self.op.marks and obj == "tb_comm":
                continue
            for param in self.op.params:
                if param.kind.object == obj and param.sigil != "^":
                    return param
        return None

    def say(self, text: str, indent: int = 4) -> None:
        self.lines.append(" " * indent + text)

    def take(self, text: str, indent: int = 4) -> None:
        """One step: a call, or an error."""
        head, _, rest = text.partition("(")
        inside, _, _ = rest.rpartition(")")
        before = " " * indent + f"TB_TAKE({head}"
        if rest:
            self.lines.append(wrap(before, inside.split(", "), ");"))
        else:
            self.lines.append(before + ");")

    def null(self, param: Param) -> str:
        return self.nulls[param.kind.handle]

    def look_up(self, param: Param, indent: int = 4) -> None:
        """The object behind a handle, into `name_`."""
        name, obj = param.name, param.kind.object
        if param.sigil in ("!", "*"):
            self.take(f'tb_check_ptr("{name}", {name})', indent)
            name = "*" + name
        if param.sigil == "?":
            self.say(f"if ({name} != {self.null(param)})", indent)
            indent += 4
        self.take(f"{obj}_get({name}, &{param.name}_)", indent)
        if param.kind.check:
            self.take(param.kind.check.replace("@", param.name + "_"), indent)

    def declare(self, param: Param) -> None:
        """The local variable of a parameter that needs one."""
        if param.out_view:
            self.say(f"MPI_Count {param.name}_ = 0;")
        elif param.kind.object:
            sure = param.sigil in ("", "!", "*") and not param.when
            init = "" if sure else " = NULL"
            self.say(f"struct {param.kind.object} *{param.name}_{init};")

    def check(self, param: Param, indent: int = 4) -> None:
        """Everything to be known about a parameter before the call."""
        name = param.name
        if param.out_view and param.sigil == "&":
            self.take(f'tb_out_get("{name}", {name}, &{name}_)', indent)
        elif param.sigil == "^" and not param.large_only:
            what = "tb_check_out" if param.out_view else "tb_check_ptr"
            self.take(f'{what}("{name}", {name})', indent)
        elif param.sigil == "^":
            pass
        elif param.kind.object:
            self.look_up(param, indent)
        elif param.kind.check and param.sigil != "?":
            text = param.kind.check.replace("@", name)
            self.take(text.replace("$", self.comm), indent)

    def condition(self, param: Param) -> str:
        """The C condition of kind@when."""
        before = self.op.params[: self.op.params.index(param)]
        buffers = [p.name for p in before if p.kind.name in ("buf", "cbuf")]
        text = CONDITIONS[param.when]
        return text.format(comm=self.comm, buffer=buffers[-1])

    def prepare(self) -> None:
        """Looks up and checks, the error handler's object and root first."""
        op = self.op
        if "on=file" in op.marks:
            self.say("TB_ON_FILE(NULL);")
        if self.target:
            self.declare(self.target)
            self.look_up(self.target)
            kind = self.target.kind.object.removeprefix("tb_").upper()
            self.say(f"TB_ON_{kind}({self.target.name}_);")
        if not op.implemented:
            return
        roots = [p for p in op.params if p.kind.name == "root"]
        for param in roots:
            self.check(param)
        rest = [p for p in op.params if p is not self.target and p not in roots]
        for when, group in groupby(rest, key=lambda p: p.when):
            params = list(group)
            for param in params:
                self.declare(param)
                if not when:
                    self.check(param)
            if when:
                self.say(f"if ({self.condition(params[0])}) {{")
                for param in params:
                    self.check(param, 8)
                self.say("}")

    def arguments(self) -> list[str]:
        """What the implementation is called with."""
        out = []
        for param in self.op.params:
            name = param.name
            if param.out_view or (param.kind.object and param.sigil == "^"):
                out.append(f"&{name}_")
            elif param.kind.object:
                out.append(f"{name}_")
            elif param.callback:
                out += [name, f"{name}_c"]
            else:
                out.append(name)
        if "form" in self.op.marks:
            out.append("large")
        return out

    def finish(self) -> None:
        """Stores the results."""
        for param in self.op.params:
            name = param.name
            if param.out_view:
                lossy = param.sigil == "^" and not param.large_only
                put = "tb_out_put" if lossy else "tb_out_put_exact"
                self.take(f'{put}("{name}", {name}, {name}_)')
            elif param.kind.object and param.sigil == "^":
                if param.kind.object == "tb_req":
                    self.take(f"tb_req_publish({name}_, tb_on_comm(&on_))")
                self.say(f"*{name} = {param.kind.object}_handle({name}_);")
            elif param.sigil == "!":
                self.say(f"*{name} = {self.null(param)};")

    def render(self) -> list[str]:
        """All statements."""
        op = self.op
        flags = [f"TB_{m.upper()}" for m in ("anytime", "nolock") if m in op.marks]
        self.say(f"TB_ENTER({op.name}, {' | '.join(flags) or '0'});")
        self.prepare()
        if op.implemented:
            self.take(f"{op.function}({', '.join(self.arguments())})")
            self.finish()
        else:
            self.take("TB_ERR_UNSUPPORTED")
        self.say("TB_LEAVE();")
        return self.lines


def simple_body(op: Operation) -> list[str] | None:
    """Operations that need no more than one statement."""
    names = [p.name for p in op.params]
    if "cast" in op.marks:
        return [f"    return ({op.returns})(intptr_t){names[0]};"]
    if "tool" in op.marks and not op.implemented:
        return ["    return MPI_T_ERR_NOT_SUPPORTED;"]
    if "tool" in op.marks or op.returns != "int":
        return [wrap(f"    return {op.function}", names, ";")]
    return None


def shared_params(op: Operation, target: Param | None) -> list[str]:
    """Parameters of the static function behind two twins."""
    if not op.implemented:
        return [target.declare(large=True)] if target else ["void"]
    out = []
    for param in op.params:
        if param.view:
            out.append(f"struct tb_counts {param.name}")
        elif param.out_view:
            out.append(f"struct tb_count_out {param.name}")
        elif param.callback:
            large = param.kind.large.replace("@", param.name + "_c")
            out += [param.declare(large=False), large]
        else:
            out.append(param.declare(large=True))
    if "form" in op.marks:
        out.append("bool large")
    return out


def element(param: Param, large: bool) -> str:
    """`int`, `aint` or `count`: what a wide parameter is made of."""
    text = param.kind.large if large else param.kind.small
    for word, name in (("MPI_Count", "count"), ("MPI_Aint", "aint")):
        if word in text:
            return name
    return "int"


def absent(param: Param) -> str:
    """What stands for a parameter that only the _c form has."""
    if param.out_view:
        return "tb_out_none()"
    return "NULL" if param.kind.large.endswith("]") else "0"


def shared_arguments(op: Operation, large: bool, target: Param | None) -> list[str]:
    """How a twin calls the shared function."""
    if not op.implemented:
        return [target.name] if target else []
    out = []
    for param in op.params:
        name = param.name
        if param.large_only and not large:
            out.append(absent(param))
        elif param.view:
            out.append(f"tb_view_{element(param, large)}({name})")
        elif param.out_view:
            out.append(f"tb_out_{element(param, large)}({name})")
        elif param.callback:
            out += ["NULL", name] if large else [name, "NULL"]
        else:
            out.append(name)
    if "form" in op.marks:
        out.append("true" if large else "false")
    return out


def function(head: str, params: list[str], lines: list[str]) -> str:
    """A definition."""
    return wrap(head, params, "") + "\n{\n" + "\n".join(lines) + "\n}\n"


def operation(op: Operation, nulls: dict[str, str]) -> list[str]:
    """All functions of an operation."""
    out = []
    body = Body(op, nulls)
    simple = simple_body(op)
    shared = f"do_{op.name.lower()}"
    if op.twin:
        params = shared_params(op, body.target)
        out.append(function(f"static int {shared}", params, body.render()))
    for name, large in op.forms():
        if op.twin:
            arguments = shared_arguments(op, large, body.target)
            lines = [wrap(f"    return {shared}", arguments, ";")]
        else:
            lines = simple or body.render()
        out.append(function(*op.prototype(f"PMPI_{name}", large), lines))
        names = [p.name for p in op.visible(large)]
        forward = [wrap(f"    return PMPI_{name}", names, ";")]
        head, params = op.prototype(f"MPI_{name}", large)
        out.append(function(f"TB_WEAK {head}", params, forward))
    return out


def bindings(api: Api) -> dict[str, str]:
    """The files of bindings by name."""
    nulls = {s.type: s.values[0][0] for s in api.sections if s.values}
    out = {}
    for file, group in groupby(api.operations, key=lambda op: op.file):
        blocks = [banner("Bindings of MPI functions to their implementations."), HEAD]
        for op in group:
            blocks += operation(op, nulls)
        out[f"csrc/gen/bindings_{file}.c"] = "\n".join(blocks)
    return out


def calls_c(api: Api) -> str:
    """The names of the operations."""
    names = [f'    [TB_CALL_{op.name}] = "MPI_{op.name}",\n' for op in api.operations]
    return (
        banner("Names of the operations, for messages.")
        + '#include "mpi/api.h"\n\n'
        + "const char *const tb_call_name[TB_CALL_LIMIT] = {\n"
        + '    [TB_CALL_NONE] = "no MPI call",\n'
        + "".join(names)
        + "};\n"
    )
