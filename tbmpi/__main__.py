# SPDX-License-Identifier: MIT
"""``python -m tbmpi prog.py``: runs a program written for mpi4py on tbmpi."""

from tbmpi.as_mpi4py.run import main

if __name__ == "__main__":
    main()
