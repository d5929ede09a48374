/* SPDX-License-Identifier: MIT */
/*
 * Started by `tbmpi selftest`, one process a Mac:
 *
 *     tbmpi-selftest run TALK PATIENCE [daring]    as TBMPI_PLAN_FD says; TALK
 *                                                  is the socket to the other
 *     tbmpi-selftest devices                       a line for each
 *     tbmpi-selftest hold ADDRESS                  holds a queue pair until the
 *                                                  end of standard input
 *     tbmpi-selftest try ADDRESS PEER              how many are to be had, and
 *                                                  whether RTR works
 *
 * PATIENCE in milliseconds. Exit codes: 0, the probes have been made, whatever
 * they saw; 1, they could not be; 2, started wrongly.
 */
#include "selftest/station.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define DEPTH TB_IBV_FRAMES_MOST

/* Both ends must have their device before either begins. */
static bool both(struct tb_station *st, bool good)
{
    int32_t mine = good, theirs;

    tb_swap(st, &mine, &theirs, sizeof(mine));
    return mine && theirs;
}

static void probe_pair(struct tb_station *st)
{
    const struct tb_ibv_qp_cap cap = {DEPTH, DEPTH, 1, 1, 0};
    struct tb_pair pair;
    int code = tb_pair_make(&pair, st, &cap);

    if (code)
        tb_report(st, "connect", "refused", "",
                  "\"step\": \"%s\", "
                  "\"errno\": %d",
                  "create_qp", code);
    if (both(st, !code) && tb_probe_connect(st, &pair)) {
        tb_probe_rules(st, &pair);
        tb_probe_rates(st, &pair);
        tb_probe_daring(st, &pair);
    }
    tb_pair_drop(&pair);
}

static void probe_cable(struct tb_station *st, int cable)
{
    tb_err err = tb_station_open(st, cable);

    if (err)
        tb_report(st, "open", "refused", tb_fail_note(), "%s", "");
    else
        tb_probe_device(st);
    if (both(st, !err))
        probe_pair(st);
    tb_station_close(st);
}

static int run(const struct tb_config *config, int talk, long patience,
               bool daring)
{
    struct tb_station st = {.config = config, .daring = daring};
    struct tb_plan *plan;

    st.patience = (uint64_t)patience * 1000000;
    if (tb_plan_read(&plan, (int)config->plan_fd) ||
        tb_post_open(&st.talk, talk) ||
        tb_verbs_open(&st.verbs, config->librdma)) {
        fprintf(stderr, "tbmpi-selftest: %s\n", tb_fail_note());
        return 1;
    }
    if (plan->nodes != 2 || !plan->owner_rank) {
        fprintf(stderr, "tbmpi-selftest: the plan is not one of two nodes "
                        "whose ranks own the verbs\n");
        return 1;
    }
    st.plan = plan;
    st.side = plan->self;
    for (int c = 0; c < plan->cables; c++)
        probe_cable(&st, c);
    tb_verbs_close(st.verbs);
    st.verbs = NULL;
    tb_probe_link(&st);
    tb_meet(&st);
    tb_post_close(&st.talk);
    tb_plan_free(plan);
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "tbmpi-selftest: started by 'tbmpi selftest'; its head "
                    "(csrc/selftest/main.c) says how\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    static struct tb_config config; /* its texts are as long-lived */

    signal(SIGPIPE, SIG_IGN);
    if (tb_config_load(&config)) {
        fprintf(stderr, "tbmpi-selftest: %s\n", tb_fail_note());
        return 1;
    }
    if (!strcmp(what, "devices") && argc == 2)
        return tb_list_devices(&config);
    if (!strcmp(what, "hold") && argc == 3)
        return tb_hold_device(&config, argv[2]);
    if (!strcmp(what, "try") && argc == 4)
        return tb_try_device(&config, argv[2], argv[3]);
    if (!strcmp(what, "run") && argc >= 4 && config.plan_fd >= 0)
        return run(&config, atoi(argv[2]), atol(argv[3]), argc > 4);
    return usage();
}
