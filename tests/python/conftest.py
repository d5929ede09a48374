# SPDX-License-Identifier: MIT
"""Signals as a program expects them, however the tests were started."""

import signal

# A background job of a shell starts with these ignored, and so would all that the
# tests start; what is handled here has its default action after an exec.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for _ignored in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_ignored) == signal.SIG_IGN:
        signal.signal(_ignored, signal.SIG_DFL)
