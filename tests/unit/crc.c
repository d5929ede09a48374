/* SPDX-License-Identifier: MIT */
/* CRC32C against its published values, and every way against a bit by bit
 * one. */
#include "base/crc.h"

#include "unit/check.h"

static uint32_t bitwise(uint32_t crc, const unsigned char *p, size_t bytes)
{
    crc = ~crc;
    while (bytes--) {
        crc ^= *p++;
        for (int i = 0; i < 8; i++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

/* RFC 3720, B.4. */
static void test_published(void)
{
    unsigned char p[32];

    CHECK_EQ(tb_crc32c(0, "123456789", 9), 0xe3069283u);
    memset(p, 0, sizeof(p));
    CHECK_EQ(tb_crc32c(0, p, sizeof(p)), 0x8a9136aau);
    memset(p, 0xff, sizeof(p));
    CHECK_EQ(tb_crc32c(0, p, sizeof(p)), 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        p[i] = (unsigned char)i;
    CHECK_EQ(tb_crc32c(0, p, sizeof(p)), 0x46dd794eu);
    for (int i = 0; i < 32; i++)
        p[i] = (unsigned char)(31 - i);
    CHECK_EQ(tb_crc32c(0, p, sizeof(p)), 0x113fdb5cu);
}

/* Lengths around every step of the algorithm, at every alignment. */
static void test_lengths(void)
{
    static const size_t lengths[] = {0,    1,    7,    8,    9,    503,
                                     504,  505,  1007, 1008, 4031, 4032,
                                     4033, 4535, 4536, 8064, 9000};
    static unsigned char data[16384];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 167 + (i >> 7));
    for (size_t k = 0; k < TB_COUNT_OF(lengths); k++) {
        for (size_t at = 0; at < 9; at++) {
            uint32_t want = bitwise(77, data + at, lengths[k]);
            CHECK_EQ(tb_crc32c(77, data + at, lengths[k]), want);
            CHECK_EQ(tb_crc32c_portable(77, data + at, lengths[k]), want);
        }
    }
}

/* A checksum can be continued at any point. */
static void test_parts(void)
{
    static unsigned char data[6000];
    uint32_t whole;

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i ^ i >> 3);
    whole = tb_crc32c(0, data, sizeof(data));
    for (size_t cut = 0; cut <= sizeof(data); cut += 37) {
        uint32_t crc = tb_crc32c(0, data, cut);
        CHECK_EQ(tb_crc32c(crc, data + cut, sizeof(data) - cut), whole);
    }
}

int main(void)
{
    test_published();
    test_lengths();
    test_parts();
    return 0;
}
