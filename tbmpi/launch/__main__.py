# SPDX-License-Identifier: MIT
"""``python -m tbmpi.launch``: the same as tbmpirun."""

import sys

from tbmpi.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
