# SPDX-License-Identifier: MIT
"""How a program says what it has found: numbers, which two runs can be compared by."""

MARK = "answer:"


def tell(*values: object) -> None:
    """Prints the numbers in some values, ten digits each."""
    import numpy as np

    numbers = np.concatenate([np.ravel(np.asarray(value, float)) for value in values])
    print(MARK, *(f"{number:.10g}" for number in numbers + 0.0), flush=True)
