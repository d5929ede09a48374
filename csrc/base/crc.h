/* SPDX-License-Identifier: MIT */
/* CRC32C (Castagnoli), as in iSCSI: RFC 3720, appendix B.4. */
#ifndef TB_CRC_H
#define TB_CRC_H

#include "base/base.h"

/* The checksum of `bytes` bytes that follow those of which `crc` is the
 * checksum; 0 to begin with. Uses the processor's instructions where it has
 * them: some 20 bytes a nanosecond, else about 1. */
uint32_t tb_crc32c(uint32_t crc, const void *data, size_t bytes);

/* The same without those instructions; for tests. */
uint32_t tb_crc32c_portable(uint32_t crc, const void *data, size_t bytes);

#endif
