/* SPDX-License-Identifier: MIT */
/*
 * CRC32C by the processor's CRC instructions, three streams at a time: one
 * such instruction takes three cycles, but a new one can start in each. The
 * idea of three interleaved streams is Gopal and others', "Fast CRC
 * computation for iSCSI polynomial using CRC32 instruction", Intel 2011.
 *
 * A stream's checksum is moved past the bytes of the next by a multiplication
 * with x^(8 bytes) modulo the polynomial: carry-less, of two bit-reflected
 * 32-bit values. The CRC instruction over the 64-bit product multiplies by
 * x^32 and reduces, and the reflected product is one bit short, which is
 * another x; so the constants are x^(8 bytes - 33).
 */
#include "base/crc.h"

#include <pthread.h>

/* Streams of these lengths. Three long ones are the payload of a frame. */
#define LONG_BYTES ((size_t)1344)
#define SHORT_BYTES ((size_t)168)
#define LONG_ONE 0xc9c8b782u /* past one stream */
#define LONG_TWO 0x889774e1u /* past two */
#define SHORT_ONE 0x1b3d8f29u
#define SHORT_TWO 0xa60ce07bu

/* ---------------------------------------------------------------- portable */

#define POLYNOMIAL 0x82f63b78u /* reflected */

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[0][i] = c;
    }
    for (int k = 1; k < 8; k++) {
        for (int i = 0; i < 256; i++) {
            uint32_t c = table[k - 1][i];
            table[k][i] = c >> 8 ^ table[0][c & 255];
        }
    }
}

/* Eight bytes a step: Kounavis and Berry, "A systematic approach to building
 * high performance, software-based, CRC generators", ISCC 2005. */
uint32_t tb_crc32c_portable(uint32_t crc, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    pthread_once(&table_once, make_table);
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        word ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= table[7 - k][word >> 8 * k & 255];
    }
    for (; bytes; bytes--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return ~crc;
}

/* ------------------------------------------------- the processor's own way */

#if defined(__x86_64__)

#include <nmmintrin.h>
#include <wmmintrin.h>

#define HAVE_CRC 1
#define TARGET __attribute__((target("sse4.2,pclmul")))

static bool has_crc(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

TARGET static inline uint64_t add_word(uint64_t crc, uint64_t word)
{
    return _mm_crc32_u64(crc, word);
}

TARGET static inline uint32_t add_byte(uint64_t crc, unsigned char byte)
{
    return _mm_crc32_u8((uint32_t)crc, byte);
}

TARGET static inline uint64_t multiply(uint64_t a, uint32_t b)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)a),
                                           _mm_cvtsi32_si128((int)b), 0);

    return (uint64_t)_mm_cvtsi128_si64(product);
}

#elif defined(__aarch64__)

#include <arm_acle.h>
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#define HAVE_CRC 1
#if defined(__clang__)
#define TARGET __attribute__((target("crc,aes")))
#else
#define TARGET __attribute__((target("+crc+crypto")))
#endif

/* Every processor that macOS for arm64 runs on has both. */
static bool has_crc(void)
{
#if defined(__linux__)
    unsigned long caps = getauxval(AT_HWCAP);

    return caps & HWCAP_CRC32 && caps & HWCAP_PMULL;
#else
    return true;
#endif
}

TARGET static inline uint64_t add_word(uint64_t crc, uint64_t word)
{
    return __crc32cd((uint32_t)crc, word);
}

TARGET static inline uint32_t add_byte(uint64_t crc, unsigned char byte)
{
    return __crc32cb((uint32_t)crc, byte);
}

TARGET static inline uint64_t multiply(uint64_t a, uint32_t b)
{
    return (uint64_t)vmull_p64((poly64_t)a, (poly64_t)b);
}

#endif

#ifdef HAVE_CRC

static inline uint64_t word_at(const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* Three streams of `n` bytes each, one behind the other. */
TARGET static uint64_t add_three(uint64_t crc, const unsigned char *p, size_t n,
                                 uint32_t one, uint32_t two)
{
    uint64_t b = 0, c = 0;

    for (size_t i = 0; i < n; i += 8) {
        crc = add_word(crc, word_at(p + i));
        b = add_word(b, word_at(p + n + i));
        c = add_word(c, word_at(p + 2 * n + i));
    }
    return add_word(0, multiply(crc, two)) ^ add_word(0, multiply(b, one)) ^ c;
}

TARGET static uint32_t add_all(uint32_t start, const unsigned char *p,
                               size_t bytes)
{
    uint64_t crc = ~start;

    for (; bytes >= 3 * LONG_BYTES; bytes -= 3 * LONG_BYTES) {
        crc = add_three(crc, p, LONG_BYTES, LONG_ONE, LONG_TWO);
        p += 3 * LONG_BYTES;
    }
    for (; bytes >= 3 * SHORT_BYTES; bytes -= 3 * SHORT_BYTES) {
        crc = add_three(crc, p, SHORT_BYTES, SHORT_ONE, SHORT_TWO);
        p += 3 * SHORT_BYTES;
    }
    for (; bytes >= 8; bytes -= 8, p += 8)
        crc = add_word(crc, word_at(p));
    for (; bytes; bytes--)
        crc = add_byte(crc, *p++);
    return ~(uint32_t)crc;
}

uint32_t tb_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    static _Atomic int8_t known; /* 1: has them, -1: has not */
    int8_t has = atomic_load_explicit(&known, memory_order_relaxed);

    if (TB_UNLIKELY(!has)) {
        has = has_crc() ? 1 : -1;
        atomic_store_explicit(&known, has, memory_order_relaxed);
    }
    if (TB_LIKELY(has > 0))
        return add_all(crc, data, bytes);
    return tb_crc32c_portable(crc, data, bytes);
}

#else

uint32_t tb_crc32c(uint32_t crc, const void *data, size_t bytes)
{
    return tb_crc32c_portable(crc, data, bytes);
}

#endif
