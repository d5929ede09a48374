# SPDX-License-Identifier: MIT
"""`python -m tbmpi.bench`."""

from __future__ import annotations

import sys

from tbmpi.bench.cli import main

sys.exit(main())
