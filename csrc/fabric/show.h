/* SPDX-License-Identifier: MIT */
/* What a fabric looks like now, for people and for programs. */
#ifndef TB_FABRIC_SHOW_H
#define TB_FABRIC_SHOW_H

#include "fabric/state.h"

#include <stdio.h>

/* The whole state. Lock held, after fab_reap. */
void fab_show(const struct fab_state *s, FILE *out);
void fab_show_json(const struct fab_state *s, FILE *out);

/* One line for each device on which something is held or leaked; returns how
 * many things that are. */
uint32_t fab_show_held(const struct fab_state *s, FILE *out);

/* The table of switches: name, values, default, what it does. */
void fab_show_switches(FILE *out);

#endif
