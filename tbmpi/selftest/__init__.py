# SPDX-License-Identifier: MIT
"""``tbmpi selftest``: what the verbs of two Macs do, found out probe by probe."""
