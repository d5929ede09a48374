/* SPDX-License-Identifier: MIT */
/*
 * What tbmpi offers beyond the MPI standard. A program that uses it runs on
 * tbmpi only: another library does not know these handles.
 */
#ifndef TBMPI_H
#define TBMPI_H

#include "mpi.h"

/*
 * 16-bit floating point: IEEE binary16 and bfloat16, two bytes each, in the
 * byte order of the machine. Valid wherever a predefined datatype is; the
 * reductions MPI_SUM, MPI_PROD, MPI_MIN and MPI_MAX compute in single
 * precision and round once.
 *
 * The values are free in the ABI and keep its rule for types of fixed size:
 * bits 3 to 5 are the logarithm of the size.
 */
#define TBMPI_FLOAT16 ((MPI_Datatype)0x24e)
#define TBMPI_BFLOAT16 ((MPI_Datatype)0x24f)

#endif
