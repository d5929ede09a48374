/* SPDX-License-Identifier: MIT */
/*
 * The settings: one row each, nowhere else. A row gives the field, the
 * environment variable, the kind, the default as text, the unit and the help
 * line. `tbmpi info --settings` and the user guide print this table.
 *
 * Kinds: INT, BOOL (0, 1, yes, no, on, off, true, false), SIZE (bytes; suffix
 * k, m, g), TIME (seconds, decimals allowed; suffix us, ms, s), TEXT, and
 * CHOICE (one of the words in the unit column, separated by |).
 */
#ifndef TB_CONFIG_H
#define TB_CONFIG_H

#include "base/base.h"

#define TB_SETTINGS(X)                                                       \
    X(log, "TBMPI_LOG", CHOICE, "warn", "error|warn|info|debug",             \
      "how much the library says on standard error")                         \
    X(host_name, "TBMPI_HOST_NAME", TEXT, "", "name",                        \
      "what this machine is called; set by tbmpirun --sim")                  \
    X(shm_fd, "TBMPI_SHM_FD", INT, "-1", "descriptor",                       \
      "the job's shared segment; set by tbmpirun")                           \
    X(plan_fd, "TBMPI_PLAN_FD", INT, "-1", "descriptor",                     \
      "the plan of a job on several machines; set by tbmpirun")              \
    X(pool_fd, "TBMPI_POOL_FD", INT, "-1", "descriptor",                     \
      "memory shared with this machine's router; set by tbmpirun")           \
    X(ring, "TBMPI_RING", SIZE, "0", "bytes",                                \
      "shared-memory ring per pair of ranks; 0: as the segment allows")      \
    X(eager, "TBMPI_EAGER", SIZE, "0", "bytes",                              \
      "longest message sent without asking; 0: what the transport measures") \
    X(eager_window, "TBMPI_EAGER_WINDOW", SIZE, "1m", "bytes",               \
      "unexpected data one sender may leave with one receiver")              \
    X(single_copy, "TBMPI_SINGLE_COPY", CHOICE, "auto",                      \
      "auto|off|refuse|always",                                              \
      "read large messages straight from the sender's memory; auto: where "  \
      "that is quicker; refuse: behave as where the system forbids it")      \
    X(pool, "TBMPI_POOL", SIZE, "64m", "bytes",                              \
      "memory of a machine that its Thunderbolt devices read and write")     \
    X(librdma, "TBMPI_LIBRDMA", TEXT, "", "path",                            \
      "the verbs library; empty: the system's")                              \
    X(rdma_small, "TBMPI_RDMA_SMALL", INT, "64", "slots",                    \
      "receives posted on a cable for packets of up to 4 KiB, at most 64")   \
    X(rdma_middle, "TBMPI_RDMA_MIDDLE", INT, "16", "slots",                  \
      "the same for packets of up to 32 KiB")                                \
    X(rdma_large, "TBMPI_RDMA_LARGE", INT, "16", "slots",                    \
      "the same for packets of up to 128 KiB")                               \
    X(rdma_whole, "TBMPI_RDMA_WHOLE", BOOL, "0", "",                         \
      "send slots to their last byte, not only to their last frame")         \
    X(rdma_ack, "TBMPI_RDMA_ACK", TIME, "300us", "seconds",                  \
      "longest wait of an acknowledgement for a packet to ride with")        \
    X(rdma_probe, "TBMPI_RDMA_PROBE", TIME, "5ms", "seconds",                \
      "silence after which a sender asks by socket what has arrived")        \
    X(rdma_settle, "TBMPI_RDMA_SETTLE", TIME, "5ms", "seconds",              \
      "how long after leaving a SEND may still arrive")                      \
    X(rdma_epochs, "TBMPI_RDMA_EPOCHS", INT, "20", "a minute",               \
      "failures of a cable's queue pairs after which it is dropped")         \
    X(rdma_nap, "TBMPI_RDMA_NAP", TIME, "100us", "seconds",                  \
      "longest sleep of an idle owner of cables, which nothing wakes")       \
    X(cable_timeout, "TBMPI_CABLE_TIMEOUT", TIME, "1.5", "seconds",          \
      "silence after which a cable is dead if its peer lives")               \
    X(stopped_timeout, "TBMPI_STOPPED_TIMEOUT", TIME, "0", "seconds",        \
      "silence after which a stopped peer counts as dead; 0: never")         \
    X(router_start, "TBMPI_ROUTER_START", TIME, "60", "seconds",             \
      "longest wait for the routers of all machines to be ready")            \
    X(router_spin, "TBMPI_ROUTER_SPIN", TIME, "-1", "seconds",               \
      "a router polls this long before it naps; -1: by the load")            \
    X(router_nap, "TBMPI_ROUTER_NAP", TIME, "0.001", "seconds",              \
      "longest nap of a router; it naps a fiftieth of the time it was idle") \
    X(windows, "TBMPI_WINDOWS", INT, "0", "packets",                         \
      "on their way between two machines, of each size; 0: as the pool "     \
      "allows")                                                              \
    X(tcp_ring, "TBMPI_TCP_RING", SIZE, "1m", "bytes",                       \
      "on their way over a socket to one rank of another machine, at most")  \
    X(tcp_timeout, "TBMPI_TCP_TIMEOUT", TIME, "10", "seconds",               \
      "after which a machine that answers nothing counts as dead")           \
    X(spin, "TBMPI_SPIN", TIME, "-1", "seconds",                             \
      "poll this long before sleeping; -1: by the load of the machine")      \
    X(yields, "TBMPI_YIELDS", INT, "20", "polls",                            \
      "yields before sleeping when ranks outnumber processors")              \
    X(check, "TBMPI_CHECK", TIME, "0.2", "seconds",                          \
      "longest sleep before looking whether the launcher still lives")       \
    X(reproducible, "TBMPI_REPRODUCIBLE", BOOL, "0", "",                     \
      "reductions in one fixed order whatever the topology")                 \
    X(commons, "TBMPI_COMMONS", BOOL, "1", "",                               \
      "small collectives through shared memory inside a machine")            \
    X(coll, "TBMPI_COLL", TEXT, "", "name=algorithm,…",                      \
      "forces algorithms, for measurements: e.g. allreduce=ring")

enum tb_setting_kind {
    TB_SET_INT,
    TB_SET_BOOL,
    TB_SET_SIZE,
    TB_SET_TIME,
    TB_SET_TEXT,
    TB_SET_CHOICE
};

/* In memory: INT, BOOL, SIZE are int64_t; TIME is nanoseconds in an int64_t
 * (negative stays negative); CHOICE is the index of the word; TEXT is a
 * string that lives as long as the process. */
#define TB_FIELD_INT int64_t
#define TB_FIELD_BOOL int64_t
#define TB_FIELD_SIZE int64_t
#define TB_FIELD_TIME int64_t
#define TB_FIELD_CHOICE int64_t
#define TB_FIELD_TEXT const char *

struct tb_config {
#define X(field, env, kind, def, unit, help) TB_FIELD_##kind field;
    TB_SETTINGS(X)
#undef X
};

/* The words of TBMPI_SINGLE_COPY. */
enum {
    TB_SINGLE_COPY_AUTO,
    TB_SINGLE_COPY_OFF,
    TB_SINGLE_COPY_REFUSE,
    TB_SINGLE_COPY_ALWAYS
};

/* Fills `out` from defaults and environment; the only caller of getenv in the
 * library, but for the start-up variables that net/boot.c names. A value that
 * cannot be read is an error that names the variable and what it takes. */
tb_err tb_config_load(struct tb_config *out);

/* getenv for net/boot.c and base/machine.c, so that it stands in one place. */
const char *tb_env(const char *name);

#endif
