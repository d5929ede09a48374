/* SPDX-License-Identifier: MIT */
/* What op.c and op_kernels.c share. */
#ifndef TB_OP_H
#define TB_OP_H

#include "mpi/type.h"

/* inout[i] = in[i] op inout[i] for n elements, at any alignment. */
typedef void tb_op_kernel(const void *restrict in, void *restrict inout,
                          int64_t n);

/* The handles of predefined operations are this and the numbers after it. */
#define TB_OP_FIRST 0x20
#define TB_OP_LIMIT 0x20

/* By handle, less TB_OP_FIRST, and representation; NULL: there is none. */
extern tb_op_kernel *const tb_op_kernels[TB_OP_LIMIT][TB_BASIC_LIMIT];

#endif
