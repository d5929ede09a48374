# SPDX-License-Identifier: MIT
"""The one exception that ends a benchmark with a message for its user."""


class BenchError(Exception):
    """Says what is wrong and what to do about it."""
