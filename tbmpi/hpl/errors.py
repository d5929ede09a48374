# SPDX-License-Identifier: MIT
"""The one exception of the HPL adapter."""

from __future__ import annotations


class HplError(Exception):
    """What went wrong and what to do about it, in words for the user."""
