/* SPDX-License-Identifier: MIT */
/*
 * The process. Started by tbmpirun, one a node and job, in a session of its
 * own: what a terminal sends to the job does not reach it, and it ends when it
 * is told to, or when the agent's descriptor says that nobody will.
 *
 * Exit codes: 0 told to end and done so in order, 1 a failure, 2 started by
 * hand. One line on standard error for 1 and 2.
 */
#include "router/router.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static void catch_signals(void)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < TB_COUNT_OF(ends); i++)
        sigaction(ends[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

static int say(const char *name, const char *why)
{
    fprintf(stderr, "tbmpi-router%s%s: %s\n", *name ? " of " : "", name, why);
    return 1;
}

static int route(const struct tb_config *config)
{
    char name[TB_PLAN_NAME_BYTES], prefix[TB_PLAN_NAME_BYTES + 20];
    struct tb_router *r;
    struct tb_plan *plan;
    tb_err err;

    if (tb_plan_read(&plan, (int)config->plan_fd))
        return say("", tb_fail_note());
    memcpy(name, plan->node[plan->self].name, sizeof(name));
    snprintf(prefix, sizeof(prefix), "tbmpi-router of %s", name);
    tb_log_name(prefix);
    if (tb_router_open(&r, config, plan))
        return say(name, tb_fail_note());
    err = tb_router_run(r, &stop);
    if (err)
        say(name, tb_fail_note());
    tb_router_close(r);
    return err ? 1 : 0;
}

int main(int argc, char **argv)
{
    struct tb_config config;

    if (argc > 1 && !strcmp(argv[1], "--version")) {
        puts("tbmpi-router " TB_VERSION);
        return 0;
    }
    if (tb_config_load(&config))
        return say("", tb_fail_note());
    if (argc > 1 || config.plan_fd < 0) {
        fprintf(stderr,
                "tbmpi-router: carries the packets of one job between Macs; "
                "tbmpirun starts it, with TBMPI_PLAN_FD and others set\n");
        return 2;
    }
    catch_signals();
    setsid(); /* fails when the launcher has done it already */
    return route(&config);
}
