# SPDX-License-Identifier: MIT
"""Generated files: what Python needs to know of the C side."""
