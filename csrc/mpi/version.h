/* SPDX-License-Identifier: MIT */
#ifndef TB_VERSION_H
#define TB_VERSION_H

/* Set by the build from pyproject.toml, the one place for it. */
#ifndef TB_VERSION
#error "the build defines TB_VERSION"
#endif

#endif
