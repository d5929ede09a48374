/* SPDX-License-Identifier: MIT */
/*
 * Virtual Macs for the transport tests: an emulated fabric in which every two
 * are joined by cables, with the sockets that belong to them, and what the
 * rdma transport needs to open an end there.
 *
 * With TBMPI_TEST_LIBRDMA, the path of a verbs library, there is no fabric:
 * that library's devices must have the addresses that macs_gid gives.
 */
#ifndef TB_TRANSPORT_MACS_H
#define TB_TRANSPORT_MACS_H

#include "fabric/state.h"
#include "fabric/tbmpi_fabric.h"
#include "net/rdma.h"
#include "net/verbs.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "unit/check.h"

#define MACS_MOST 16
#define MACS_CABLES 240
#define MACS_POOL ((size_t)32 << 20)

/* Of one cable: which Macs, and the sockets of both ends. */
struct macs_cable {
    int mac[2];
    int wire[2];
    int relay[2]; /* the sockets between, where the wires are relayed */
};

struct macs {
    int n;
    int cables;
    struct macs_cable cable[MACS_CABLES];
    int mgmt[MACS_MOST][MACS_MOST]; /* [a][b]: a's end of the socket to b */
    char path[256];
    struct fab_state *state; /* the fabric's file */
    pthread_t relay;
    int echo[MACS_MOST][2];      /* [a][0]: a's socket to the relay */
    _Atomic bool relaying, deaf; /* deaf: passes nothing on, answers nobody */
    void *library;
    int (*host)(int host);
    int (*create)(const char *path, const char *text, char *why, size_t room);
    int (*fault)(const char *path, const char *what, char *why, size_t room);
};

/* One Mac's verbs and pool, and what its port was opened with. */
struct mac {
    struct tb_verbs *verbs;
    struct tb_regpool *pool;
    struct tb_cable cables[MACS_CABLES];
    struct tb_mgmt mgmt[MACS_MOST];
    char names[MACS_MOST][16];
    struct tb_rdma_args args;
};

static inline const char *macs_real(void)
{
    return getenv("TBMPI_TEST_LIBRDMA");
}

static inline int macs_all_here(int host)
{
    return host;
}

static inline void macs_find_library(struct macs *m)
{
    if (macs_real()) {
        m->host = macs_all_here;
        return;
    }
    m->library = dlopen(TBMPI_FABRIC_LIB, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&m->host = dlsym(m->library, "tbmpi_fabric_host");
    *(void **)&m->create = dlsym(m->library, "tbmpi_fabric_create");
    *(void **)&m->fault = dlsym(m->library, "tbmpi_fabric_fault");
    CHECK(m->host && m->create && m->fault);
}

static inline void macs_socket_pair(int *a, int *b)
{
    int pair[2];

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    *a = pair[0];
    *b = pair[1];
}

/* "rdma_en<cable>" at either end; 169.254.<cable + 1>.<side + 1>, as tbmpirun
 * has it (tbmpi/launch/topology.py). */
static inline void macs_gid(int cable, int side, uint8_t gid[16])
{
    memset(gid, 0, 16);
    gid[10] = gid[11] = 0xff;
    gid[12] = 169;
    gid[13] = 254;
    gid[14] = (uint8_t)(cable + 1);
    gid[15] = (uint8_t)(side + 1);
}

static inline void macs_map(struct macs *m)
{
    int fd = open(m->path, O_RDWR);
    void *p;

    CHECK(fd >= 0);
    p = mmap(NULL, sizeof(struct fab_state), PROT_READ | PROT_WRITE, MAP_SHARED,
             fd, 0);
    CHECK(p != MAP_FAILED);
    m->state = p;
    close(fd);
}

/* Passes on what one end of a wire says to the other, unless the cable is out:
 * then nobody reads it, as with a real one. */
static inline void macs_echo(struct macs *m)
{
    for (int i = 0; i < m->n; i++) {
        char data[4096];
        ssize_t n = recv(m->echo[i][1], data, sizeof(data), MSG_DONTWAIT);
        if (n > 0)
            (void)!write(m->echo[i][1], data, (size_t)n);
    }
}

static inline void *macs_relay(void *arg)
{
    struct macs *m = arg;

    while (atomic_load(&m->relaying)) {
        struct pollfd fds[2 * MACS_CABLES];
        if (!atomic_load(&m->deaf))
            macs_echo(m);
        for (int i = 0; i < 2 * m->cables; i++)
            fds[i] = (struct pollfd){m->cable[i / 2].relay[i % 2], POLLIN, 0};
        poll(fds, (nfds_t)(2 * m->cables), 5);
        for (int i = 0; i < 2 * m->cables; i++) {
            struct macs_cable *c = &m->cable[i / 2];
            char data[4096];
            ssize_t n;
            if (!fds[i].revents || atomic_load(&m->deaf) ||
                atomic_load(&m->state->pulled[i / 2]))
                continue;
            n = read(c->relay[i % 2], data, sizeof(data));
            if (n > 0)
                (void)!write(c->relay[!(i % 2)], data, (size_t)n);
            if (n <= 0)
                shutdown(c->relay[!(i % 2)], SHUT_WR);
            if (n <= 0)
                usleep(1000);
        }
    }
    return NULL;
}

/* Puts the relay between the ends of every wire. */
static inline void macs_start_relay(struct macs *m)
{
    for (int c = 0; c < m->cables; c++) {
        for (int side = 0; side < 2; side++) {
            close(m->cable[c].wire[side]);
            macs_socket_pair(&m->cable[c].wire[side], &m->cable[c].relay[side]);
        }
    }
    for (int i = 0; i < m->n; i++)
        macs_socket_pair(&m->echo[i][0], &m->echo[i][1]);
    m->relaying = true;
    CHECK(!pthread_create(&m->relay, NULL, macs_relay, m));
}

static inline void macs_stop_relay(struct macs *m)
{
    if (!atomic_exchange(&m->relaying, false))
        return;
    pthread_join(m->relay, NULL);
    for (int c = 0; c < m->cables; c++) {
        close(m->cable[c].relay[0]);
        close(m->cable[c].relay[1]);
    }
    for (int i = 0; i < m->n; i++) {
        if (m->echo[i][0] >= 0)
            close(m->echo[i][0]);
        close(m->echo[i][1]);
    }
}

/* What processes hold of all devices together. */
struct macs_held {
    int pds, cqs, qps, mrs;
};

static inline struct macs_held macs_held(const struct macs *m)
{
    struct macs_held n = {0, 0, 0, 0};

    for (uint32_t k = 0; k < m->state->devices; k++) {
        const struct fab_device *d = &m->state->device[k];
        for (int i = 0; i < FAB_PDS; i++)
            n.pds += d->pd[i] != 0;
        for (int i = 0; i < FAB_CQS; i++)
            n.cqs += d->cq[i] != 0;
        for (int i = 0; i < FAB_QPS; i++)
            n.qps += d->qp[i].owner != 0;
        for (int i = 0; i < FAB_MRS; i++)
            n.mrs += d->mr[i] != 0;
    }
    return n;
}

static inline size_t macs_describe_cable(struct macs *m, char *text,
                                         size_t room, int a, int b)
{
    int c = m->cables++;

    CHECK(c < MACS_CABLES);
    m->cable[c].mac[0] = a;
    m->cable[c].mac[1] = b;
    macs_socket_pair(&m->cable[c].wire[0], &m->cable[c].wire[1]);
    return (size_t)snprintf(text, room,
                            "cable %d %d rdma_en%d 169.254.%d.1 %d rdma_en%d "
                            "169.254.%d.2\n",
                            c, a, c, c + 1, b, c, c + 1);
}

/* `n` Macs, each two joined by `each` cables; `settings` are further lines of
 * the fabric's description. */
static inline void macs_init(struct macs *m, int n, int each,
                             const char *settings)
{
    static char text[65536];
    const char *folder = getenv("TMPDIR");
    static int count;
    char why[512];
    size_t at = 0;

    memset(m, 0, sizeof(*m));
    macs_find_library(m);
    m->n = n;
    for (int a = 0; a < n; a++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "host %d mac%d\n",
                               a, a);
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n; b++) {
            macs_socket_pair(&m->mgmt[a][b], &m->mgmt[b][a]);
            for (int i = 0; i < each; i++)
                at +=
                    macs_describe_cable(m, text + at, sizeof(text) - at, a, b);
        }
    }
    if (macs_real()) {
        CHECK(!*settings);
        return;
    }
    snprintf(text + at, sizeof(text) - at, "%s", settings);
    snprintf(m->path, sizeof(m->path), "%s/tbmpi-macs-%d-%d",
             folder ? folder : "/tmp", (int)getpid(), count++);
    unlink(m->path);
    if (m->create(m->path, text, why, sizeof(why))) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
    macs_map(m);
    setenv("TBMPI_FABRIC", m->path, 1);
    setenv("TBMPI_FABRIC_HOST", "0", 1);
}

static inline void macs_fini(struct macs *m)
{
    macs_stop_relay(m);
    for (int c = 0; c < m->cables; c++) {
        for (int side = 0; side < 2; side++) {
            if (m->cable[c].wire[side] >= 0)
                close(m->cable[c].wire[side]);
        }
    }
    for (int a = 0; a < m->n; a++) {
        for (int b = 0; b < m->n; b++) {
            if (a != b && m->mgmt[a][b] >= 0)
                close(m->mgmt[a][b]);
        }
    }
    if (m->library) {
        unlink(m->path);
        dlclose(m->library);
    }
}

static inline void macs_fault(struct macs *m, const char *fmt, ...)
{
    char text[128], why[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (m->fault(m->path, text, why, sizeof(why))) {
        fprintf(stderr, "%s: %s\n", text, why);
        exit(1);
    }
}

/* Both ends' sockets, where both were given away: Macs may be opened again. */
static inline void macs_renew(int *a, int *b)
{
    if (*a < 0 && *b < 0)
        macs_socket_pair(a, b);
}

static inline void macs_own_cable(struct macs *m, struct mac *mac, int c,
                                  int side)
{
    struct tb_cable *to = &mac->cables[mac->args.n_cables++];

    to->id = c;
    to->peer = m->cable[c].mac[!side];
    to->peer_name = mac->names[to->peer];
    to->device = "rdma_en";
    macs_gid(c, side, to->gid);
    macs_gid(c, !side, to->peer_gid);
    macs_renew(&m->cable[c].wire[0], &m->cable[c].wire[1]);
    to->wire = m->cable[c].wire[side];
}

/* What Mac `self` hands to its port. */
static inline tb_err mac_init(struct mac *mac, struct macs *m, int self,
                              size_t pool)
{
    memset(mac, 0, sizeof(*mac));
    for (int i = 0; i < m->n; i++)
        snprintf(mac->names[i], sizeof(mac->names[i]), "mac%d", i);
    TB_TRY(tb_verbs_open(&mac->verbs,
                         macs_real() ? macs_real() : TBMPI_FABRIC_LIB));
    TB_TRY(tb_regpool_open(&mac->pool, -1, pool, 0));
    mac->args.verbs = mac->verbs;
    mac->args.pool = mac->pool;
    mac->args.name = mac->names[self];
    mac->args.build = TB_VERSION;
    mac->args.cables = mac->cables;
    mac->args.mgmt = mac->mgmt;
    mac->args.relay = m->relaying ? m->echo[self][0] : 0;
    for (int c = 0; c < m->cables; c++) {
        for (int side = 0; side < 2; side++) {
            if (m->cable[c].mac[side] == self)
                macs_own_cable(m, mac, c, side);
        }
    }
    for (int i = 0; i < m->n; i++) {
        if (i == self)
            continue;
        macs_renew(&m->mgmt[self][i], &m->mgmt[i][self]);
        mac->mgmt[mac->args.n_mgmt++] =
            (struct tb_mgmt){i, mac->names[i], m->mgmt[self][i]};
    }
    return TB_OK;
}

/* The sockets are the port's now: not to be closed here. */
static inline void mac_opened(struct macs *m, int self)
{
    for (int c = 0; c < m->cables; c++) {
        for (int side = 0; side < 2; side++) {
            if (m->cable[c].mac[side] == self)
                m->cable[c].wire[side] = -1;
        }
    }
    for (int i = 0; i < m->n; i++)
        m->mgmt[self][i] = -1;
    m->echo[self][0] = -1;
}

static inline void mac_fini(struct mac *mac)
{
    tb_regpool_close(mac->pool);
    tb_verbs_close(mac->verbs);
    memset(mac, 0, sizeof(*mac));
}

#endif
