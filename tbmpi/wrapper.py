# SPDX-License-Identifier: MIT
"""``tbmpicc`` and ``tbmpicxx``: the system's compiler, told where tbmpi is.

They add the folder of mpi.h and, when something is linked, the library by its
full path with an rpath. The questions that build systems ask the wrappers of
MPICH (-show) and of Open MPI (-showme:...) are answered alike.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tbmpi import _paths

NOT_FOUND = 127
QUESTIONS = {"show", "showme", "compile-info", "link-info"}
NO_LINKING = {"-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"}
# Options whose operand is the next word, so that it is not taken for a file.
WITH_OPERAND = {
    *("-o", "-x", "-I", "-L", "-l", "-D", "-U", "-T", "-u", "-z", "-include"),
    *("-isystem", "-MF", "-MT", "-MQ", "-Xlinker", "-arch", "-framework"),
}


class WrapperError(Exception):
    """One line for the user, remedy included."""


@dataclass(frozen=True)
class Language:
    """What differs between the two wrappers."""

    command: str
    name: str
    variable: str
    option: str
    compilers: tuple[str, ...]


C = Language("tbmpicc", "C", "TBMPI_CC", "-cc=", ("cc", "gcc", "clang"))
CXX = Language("tbmpicxx", "C++", "TBMPI_CXX", "-cxx=", ("c++", "g++", "clang++"))


def cc_main() -> int:
    """The command tbmpicc."""
    return main(C, sys.argv[1:])


def cxx_main() -> int:
    """The command tbmpicxx."""
    return main(CXX, sys.argv[1:])


def main(language: Language, argv: Sequence[str]) -> int:
    """Becomes the compiler, or answers a question; the exit code if neither."""
    words, question, compiler = _sort(language, argv)
    try:
        chosen = _compiler(language, compiler)
        if question:
            print(answer(language, question, chosen, words))
            return 0
        command = command_line(chosen, words, asked=False)
        sys.stdout.flush()
        os.execvp(command[0], command)
    except WrapperError as problem:
        print(f"{language.command}: {problem}", file=sys.stderr)
        return 1
    except OSError as why:
        print(
            f"{language.command}: cannot run {command[0]}: {why.strerror}",
            file=sys.stderr,
        )
        return NOT_FOUND


def _sort(language: Language, argv: Sequence[str]) -> tuple[list[str], str, str]:
    """Splits our options off: the compiler's words, a question, a compiler."""
    words: list[str] = []
    question = compiler = ""
    for word in argv:
        name = word.lstrip("-").replace("_", "-") if word.startswith("-") else ""
        if name in QUESTIONS or name.startswith("showme:"):
            question = name
        elif word.startswith(language.option):
            compiler = word.removeprefix(language.option)
        else:
            words.append(word)
    return words, question, compiler


def _compiler(language: Language, chosen: str) -> list[str]:
    chosen = chosen or os.environ.get(language.variable, "")
    if chosen:
        return shlex.split(chosen)
    for name in language.compilers:
        if shutil.which(name):
            return [name]
    raise WrapperError(
        f"no {language.name} compiler ({', '.join(language.compilers)}) on PATH; "
        f"install one or name it in {language.variable}"
    )


def compile_flags() -> list[str]:
    """What a compilation needs."""
    header = _paths.include_folder() / "mpi.h"
    if not header.exists():
        raise WrapperError(
            f"{header} is missing; build and install tbmpi: pip install ."
        )
    return [f"-I{header.parent}"]


def link_flags() -> list[str]:
    """What a link needs."""
    library = _paths.library()
    if not library.exists():
        raise WrapperError(
            f"{library} is missing; build and install tbmpi: pip install ."
        )
    return [str(library), f"-Wl,-rpath,{library.parent}"]


def link_flags_by_name() -> list[str]:
    """The same for build systems that read the answer word by word.

    CMake's FindMPI takes a full path only if it ends in .so or .dylib.
    """
    flags = link_flags()
    library = _paths.library()
    if library.suffix == ".dylib":
        return flags
    return [f"-L{library.parent}", f"-l:{library.name}", *flags[1:]]


def command_line(
    compiler: Sequence[str], words: Sequence[str], asked: bool
) -> list[str]:
    """The compiler's command line; `asked` when it is only to be shown."""
    command = list(compiler)
    if not _has_input(words) and not asked:
        return [*command, *words]  # --version, -dumpmachine and the like
    command += [*compile_flags(), *words]
    if not NO_LINKING.intersection(words):
        command += link_flags()
    return command


def _has_input(words: Sequence[str]) -> bool:
    operand = False
    for word in words:
        if not operand and (word == "-" or not word.startswith("-")):
            return True
        operand = not operand and word in WITH_OPERAND
    return False


def answer(
    language: Language, question: str, compiler: Sequence[str], words: Sequence[str]
) -> str:
    """What a build system wants to know."""
    if question in ("show", "showme"):
        return _join(command_line(compiler, words, asked=True))
    if question == "compile-info":
        return _join([*compiler, *compile_flags()])
    if question == "link-info":
        return _join([*compiler, *link_flags()])
    topic = question.removeprefix("showme:")
    if topic == "version":
        from tbmpi import info

        return f"{language.command}: tbmpi {info.version()} (Language: {language.name})"
    answers: dict[str, Callable[[], str]] = {
        "compile": lambda: _join(compile_flags()),
        "link": lambda: _join(link_flags_by_name()),
        "command": lambda: _join(compiler),
        "incdirs": lambda: str(_paths.include_folder()),
        "libdirs": lambda: str(_paths.library_folder()),
        "libs": lambda: "mpi_abi",
    }
    if topic not in answers:
        raise WrapperError(
            f"-showme:{topic} is not known; try {', '.join(answers)} or version"
        )
    return answers[topic]()


def _join(words: Sequence[str]) -> str:
    """A line for a shell, quoted the way CMake's FindMPI can read, too.

    It wants double quotes, and a flag before the quote: -I"/with space".
    """
    return " ".join(map(_quote, words))


def _quote(word: str) -> str:
    if shlex.quote(word) == word:
        return word
    flag = next((f for f in ("-Wl,", "-I", "-L", "-l") if word.startswith(f)), "")
    rest = re.sub(r'(["\\$`])', r"\\\1", word.removeprefix(flag))
    return f'{flag}"{rest}"'
