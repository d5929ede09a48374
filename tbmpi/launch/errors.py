# SPDX-License-Identifier: MIT
"""What the launcher says no to, and the exit codes it says it with."""

USAGE = 2
TIMED_OUT = 124
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNAL_BASE = 128
FAILED = 1


class LaunchError(Exception):
    """One line for the user, remedy included, and the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code
