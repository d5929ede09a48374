/* SPDX-License-Identifier: MIT */
/* The settings: defaults, every kind, and what is refused with which words. */
#include "base/config.h"

#include "unit/check.h"

static void clear(void)
{
#define X(field, env, kind, def, unit, help) unsetenv(env);
    TB_SETTINGS(X)
#undef X
}

static struct tb_config load(const char *name, const char *value)
{
    struct tb_config c;
    tb_err err;

    clear();
    if (name)
        setenv(name, value, 1);
    err = tb_config_load(&c);
    if (err)
        fprintf(stderr, "%s\n", tb_fail_note());
    CHECK_EQ(err, TB_OK);
    return c;
}

/* The note names the variable, the value and what is taken. */
static void refuse(const char *name, const char *value, const char *takes)
{
    struct tb_config c;

    clear();
    setenv(name, value, 1);
    CHECK_EQ(tb_config_load(&c), TB_ERR_ARG);
    CHECK(strstr(tb_fail_note(), name));
    CHECK(strstr(tb_fail_note(), value));
    CHECK(strstr(tb_fail_note(), takes));
}

static void test_defaults(void)
{
    struct tb_config c = load(NULL, NULL);

    CHECK_EQ(c.shm_fd, -1);
    CHECK_EQ(c.eager_window, 1 << 20);
    CHECK_EQ(c.check, 200000000);
    CHECK_EQ(c.yields, 20);
    CHECK_EQ(c.single_copy, TB_SINGLE_COPY_AUTO);
    CHECK(c.spin < 0);
    CHECK(!*c.coll);
    /* An empty value is as good as none. */
    CHECK_EQ(load("TBMPI_CHECK", "").check, 200000000);
}

static void test_kinds(void)
{
    CHECK_EQ(load("TBMPI_SHM_FD", "7").shm_fd, 7);
    CHECK_EQ(load("TBMPI_SHM_FD", "-7").shm_fd, -7);
    CHECK_EQ(load("TBMPI_RING", "65536").ring, 65536);
    CHECK_EQ(load("TBMPI_RING", "64k").ring, 65536);
    CHECK_EQ(load("TBMPI_RING", "2M").ring, 2 << 20);
    CHECK_EQ(load("TBMPI_RING", "1g").ring, 1 << 30);
    CHECK_EQ(load("TBMPI_CHECK", "1.5").check, 1500000000);
    CHECK_EQ(load("TBMPI_CHECK", "30ms").check, 30000000);
    CHECK_EQ(load("TBMPI_CHECK", "7us").check, 7000);
    CHECK_EQ(load("TBMPI_CHECK", "2s").check, 2000000000);
    CHECK_EQ(load("TBMPI_REPRODUCIBLE", "yes").reproducible, 1);
    CHECK_EQ(load("TBMPI_REPRODUCIBLE", "On").reproducible, 1);
    CHECK_EQ(load("TBMPI_COMMONS", "0").commons, 0);
    CHECK_EQ(load("TBMPI_SINGLE_COPY", "refuse").single_copy,
             TB_SINGLE_COPY_REFUSE);
    CHECK_EQ(load("TBMPI_SINGLE_COPY", "always").single_copy,
             TB_SINGLE_COPY_ALWAYS);
    CHECK_EQ(load("TBMPI_LOG", "debug").log, TB_LOG_DEBUG);
}

/* A text is kept although the environment changes. */
static void test_text(void)
{
    struct tb_config c = load("TBMPI_COLL", "bcast=ring");

    setenv("TBMPI_COLL", "xxxxxxxxxxxxxxxx", 1);
    CHECK(!strcmp(c.coll, "bcast=ring"));
    tb_free((void *)(uintptr_t)c.coll);
}

static void test_refusals(void)
{
    refuse("TBMPI_SHM_FD", "three", "whole number");
    refuse("TBMPI_SHM_FD", "3x", "whole number");
    refuse("TBMPI_SHM_FD", "99999999999999999999", "whole number");
    refuse("TBMPI_RING", "64q", "64k");
    refuse("TBMPI_RING", "-1", "64k");
    refuse("TBMPI_RING", "64kk", "64k");
    refuse("TBMPI_RING", "9999999999g", "64k");
    refuse("TBMPI_CHECK", "soon", "seconds");
    refuse("TBMPI_CHECK", "1h", "seconds");
    refuse("TBMPI_CHECK", "1e300", "seconds");
    refuse("TBMPI_CHECK", "nan", "seconds");
    refuse("TBMPI_COMMONS", "maybe", "yes");
    refuse("TBMPI_SINGLE_COPY", "perhaps", "auto|off|refuse");
    refuse("TBMPI_SINGLE_COPY", "aut", "auto|off|refuse");
}

int main(void)
{
    test_defaults();
    test_kinds();
    test_text();
    test_refusals();
    return 0;
}
