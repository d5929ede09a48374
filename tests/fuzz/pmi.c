/* SPDX-License-Identifier: MIT */
/* The lines of a launcher that speaks PMI-1, or something like it (boot.c). */
#include "net/net.h"

#include <sys/socket.h>

#include "fuzz/fuzz.h"

static const char lines[] =
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
    "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024\n"
    "cmd=my_kvsname kvsname=kvs_0\n"
    "cmd=appnum appnum=0\n"
    "cmd=universe_size size=3\n"
    "cmd=put_result rc=0 msg=success\n"
    "cmd=barrier_out rc=0\n"
    "cmd=get_result rc=0 msg=success value=3-0001020304\n"
    "cmd=get_result rc=0 msg=success value=\n";

static void fuzz_example(struct fuzz *f)
{
    fuzz_add_text(f, lines);
    while (fuzz_below(f, 4) == 0)
        fuzz_change(f);
}

static void talk(struct tb_boot *boot)
{
    char value[300];
    size_t bytes = 0;

    CHECK(tb_boot_rank(boot) < tb_boot_size(boot));
    tb_boot_put(boot, "key", "value", 5);
    tb_boot_fence(boot);
    for (int i = 0; i < 3; i++) {
        if (!tb_boot_get(boot, "key", value, sizeof(value), &bytes))
            CHECK(bytes <= sizeof(value));
    }
    tb_boot_alive(boot);
    tb_boot_close(boot);
}

/* All that the launcher will say is said before it is asked. */
static void fuzz_try(struct fuzz *f)
{
    struct tb_config config;
    struct tb_boot *boot;
    char number[16];
    int pair[2];

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    CHECK_EQ(write(pair[1], f->data, f->bytes), f->bytes);
    shutdown(pair[1], SHUT_WR);
    snprintf(number, sizeof(number), "%d", pair[0]);
    setenv("PMI_FD", number, 1);
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "3", 1);
    unsetenv("TBMPI_INSIDE");
    CHECK_EQ(tb_config_load(&config), TB_OK);
    if (tb_boot_open(&boot, &config))
        CHECK(*tb_fail_note());
    else
        talk(boot);
    close(pair[1]);
}
