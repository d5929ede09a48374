/* SPDX-License-Identifier: MIT */
/* Loading the verbs library where there is none, or none that is one: an error
 * that lets others take over, and says what to do. */
#include "net/verbs.h"

#include "unit/check.h"

static void test_no_library(void)
{
    struct tb_verbs *v = NULL;

    CHECK_EQ(tb_verbs_open(&v, "/nonexistent/librdma.dylib"), TB_ERR_NOTSUP);
    CHECK(strstr(tb_fail_note(), "TBMPI_LIBRDMA") != NULL);
    CHECK(strstr(tb_fail_note(), "/nonexistent/librdma.dylib") != NULL);
    CHECK(!v);
}

/* A library that is no verbs library is named, and so is what it lacks. */
static void test_other_library(void)
{
    static const char *const any[] = {"libm.so.6",
                                      "/usr/lib/libSystem.B.dylib"};
    struct tb_verbs *v = NULL;

    for (size_t i = 0; i < TB_COUNT_OF(any); i++) {
        CHECK_EQ(tb_verbs_open(&v, any[i]), TB_ERR_NOTSUP);
        CHECK(strstr(tb_fail_note(), "ibv_") ||
              strstr(tb_fail_note(), "TBMPI_LIBRDMA"));
    }
}

static void test_no_memory(void)
{
    struct tb_verbs *v;

    tb_mem_fail_after(0);
    CHECK_EQ(tb_verbs_open(&v, ""), TB_ERR_NO_MEM);
    tb_mem_fail_after(-1);
}

static void test_status_names(void)
{
    for (int i = -5; i < 40; i++)
        CHECK(tb_wc_text(i) && *tb_wc_text(i));
    CHECK(!strcmp(tb_wc_text(TB_IBV_WC_SUCCESS), "success"));
    CHECK(!strcmp(tb_wc_text(TB_IBV_WC_WR_FLUSH_ERR), "flushed"));
    CHECK(
        !strcmp(tb_wc_text(TB_IBV_WC_LOC_PROT_ERR), "local protection error"));
}

int main(void)
{
    test_no_library();
    test_other_library();
    test_no_memory();
    test_status_names();
    return 0;
}
