/* SPDX-License-Identifier: MIT */
/*
 * MPI's error codes. A code is one of
 *
 *   - a class (1..62, or a tool class from 1001 on), when no more is known;
 *   - slot << 6 | class, the slot naming one of the last 255 messages, so that
 *     MPI_Error_string gives the whole of it and MPI_Error_class the class;
 *   - above MPI_ERR_LASTCODE: a class or code that the program added.
 */
#ifndef TB_ERRCODE_H
#define TB_ERRCODE_H

#include "mpi/objects.h"

/* The code for `err`, with `message` kept for MPI_Error_string. NULL, or an
 * error that programs compare codes with: the bare class. */
int tb_err_code(tb_err err, const char *message);

/* Value of the attribute MPI_LASTUSEDCODE: the largest code in use. */
int tb_err_last_used(void);

#endif
