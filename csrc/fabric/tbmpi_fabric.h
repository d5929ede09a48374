/* SPDX-License-Identifier: MIT */
/*
 * What libtbmpi_fabric exports beside the verbs: for tests that open two
 * virtual Macs in one process, and for whoever steers a fabric.
 *
 * A fabric is one file that all processes of a simulated cluster map. The
 * verbs find it by the environment: TBMPI_FABRIC is its path, and
 * TBMPI_FABRIC_HOST the number of the virtual Mac that the process runs on.
 */
#ifndef TBMPI_FABRIC_H
#define TBMPI_FABRIC_H

#include <stddef.h>

/* The virtual Mac whose devices ibv_get_device_list lists from now on in this
 * thread, instead of TBMPI_FABRIC_HOST; -1: that again. Returns what it was. */
int tbmpi_fabric_host(int host);

/* Makes the file from a description (docs/fabric.md). 0, or -1 with one line
 * in `why` and no file. */
int tbmpi_fabric_create(const char *path, const char *description, char *why,
                        size_t room);

/* Does to a fabric what `tbmpi-fabric fault` does, e.g. "pull 0 segv".
 * 0, or -1 with one line in `why` and nothing changed. */
int tbmpi_fabric_fault(const char *path, const char *what, char *why,
                       size_t room);

/* 1 when the cable is pulled, 0 when not, -1 when there is no such file or
 * cable. The same can be read from the file itself: the byte at offset
 * 4096 + cable is 1 while the cable is pulled. */
int tbmpi_fabric_pulled(const char *path, int cable);

#endif
