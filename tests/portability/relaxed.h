/* SPDX-License-Identifier: MIT */
/* Included before everything else: a build that asks for no order at all, in
 * which barriers.py must miss the barriers. */
#include <stdatomic.h>

#define memory_order_acquire memory_order_relaxed
#define memory_order_release memory_order_relaxed
#define memory_order_acq_rel memory_order_relaxed
#define memory_order_seq_cst memory_order_relaxed
