/* SPDX-License-Identifier: MIT */
/*
 * The client of PMI-1's wire protocol: lines of key=value words, one answer
 * to each question. The launcher either leaves a connected socket (PMI_FD) or
 * names an address to connect to (PMI_PORT, PMI_ID).
 */
#include "net/net.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINE_BYTES 4096
#define NAME_BYTES 256
#define ANSWER_MS 60000 /* for anything but a barrier */
#define SIZE_MOST 65535 /* struct tb_hop */
#define VALUE_LEAST 64  /* shortest value limit that makes sense */

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* there SO_NOSIGPIPE does it */
#endif

struct tb_boot {
    int fd; /* -1: no launcher */
    int rank, size, appnum, universe;
    _Atomic bool gone; /* end of file was seen */
    size_t value_max, key_max;
    char kvs[NAME_BYTES];
    size_t have; /* bytes in `in` */
    char in[LINE_BYTES];
    char line[LINE_BYTES]; /* the answer in hand */
};

/* ------------------------------------------------------------------- lines */

static tb_err launcher_gone(struct tb_boot *b)
{
    b->gone = true;
    return tb_fail(TB_ERR_LOST, "the launcher has closed its connection");
}

static tb_err send_text(struct tb_boot *b, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t n = send(b->fd, text, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd p = {b->fd, POLLOUT, 0};
            poll(&p, 1, ANSWER_MS);
            continue;
        }
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
            return launcher_gone(b);
        if (n < 0)
            return tb_fail_errno("cannot write to the launcher");
        text += n;
        bytes -= (size_t)n;
    }
    return TB_OK;
}

static tb_err send_line(struct tb_boot *b, const char *fmt, ...)
    TB_PRINTF(2, 3);

static tb_err send_line(struct tb_boot *b, const char *fmt, ...)
{
    char text[LINE_BYTES];
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(text) - 1)
        return tb_fail(TB_ERR_INTERN, "a PMI line is too long");
    text[n++] = '\n';
    return send_text(b, text, (size_t)n);
}

/* More bytes into `in`; `ms` -1 waits as long as the launcher lives. */
static tb_err fill(struct tb_boot *b, int ms)
{
    struct pollfd p = {b->fd, POLLIN, 0};
    ssize_t n;
    int ready;

    if (b->have == sizeof(b->in))
        return tb_fail(TB_ERR_PROTOCOL, "the launcher sent an endless line");
    ready = poll(&p, 1, ms);
    if (ready < 0 && errno == EINTR)
        return TB_OK;
    if (ready == 0)
        return tb_fail(TB_ERR_LOST,
                       "the launcher has not answered within %d seconds",
                       ms / 1000);
    n = recv(b->fd, b->in + b->have, sizeof(b->in) - b->have, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return TB_OK;
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return launcher_gone(b);
    if (n < 0)
        return tb_fail_errno("cannot read from the launcher");
    b->have += (size_t)n;
    return TB_OK;
}

static tb_err read_line(struct tb_boot *b, int ms)
{
    for (;;) {
        char *end = memchr(b->in, '\n', b->have);
        if (end) {
            size_t bytes = (size_t)(end - b->in);
            memcpy(b->line, b->in, bytes);
            b->line[bytes] = 0;
            b->have -= bytes + 1;
            memmove(b->in, end + 1, b->have);
            return TB_OK;
        }
        TB_TRY(fill(b, ms));
    }
}

/* The value of `key` in the line in hand, up to the next blank. */
static bool word(const struct tb_boot *b, const char *key, char *out,
                 size_t room)
{
    size_t n = strlen(key);
    const char *p = b->line;

    while (*p) {
        size_t bytes;
        p += strspn(p, " ");
        bytes = strcspn(p, " ");
        if (bytes > n && p[n] == '=' && !strncmp(p, key, n)) {
            snprintf(out, room, "%.*s", (int)(bytes - n - 1), p + n + 1);
            return true;
        }
        p += bytes;
    }
    return false;
}

static bool number(const struct tb_boot *b, const char *key, int *out)
{
    char text[32], *end;
    long n;

    if (!word(b, key, text, sizeof(text)))
        return false;
    n = strtol(text, &end, 10);
    if (end == text || n < INT32_MIN || n > INT32_MAX)
        return false;
    *out = (int)n;
    return true;
}

/* Reads the answer whose cmd is `want`. */
static tb_err expect(struct tb_boot *b, const char *want, int ms)
{
    char cmd[64];

    TB_TRY(read_line(b, ms));
    if (word(b, "cmd", cmd, sizeof(cmd)) && !strcmp(cmd, want))
        return TB_OK;
    return tb_fail(TB_ERR_PROTOCOL,
                   "the launcher answered \"%.80s\" where PMI-1 has cmd=%s",
                   b->line, want);
}

/* ----------------------------------------------------------------- opening */

/* What other launchers leave in the environment of a rank. */
static const struct {
    const char *size; /* number of ranks; … */
    const char *rank; /* … believed only where this is set as well, or NULL */
    const char *who;
} foreign[] = {
    {"OMPI_COMM_WORLD_SIZE", NULL, "Open MPI's mpirun"},
    {"MV2_COMM_WORLD_SIZE", NULL, "MVAPICH's mpirun"},
    {"JSM_NAMESPACE_SIZE", NULL, "jsrun"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "Slurm's srun"},
    {"PALS_SIZE", "PALS_RANKID", "PALS' mpiexec"},
    {"PMI_SIZE", "PMI_RANK", "a launcher with a PMI of its own"},
    {"MPI_LOCALNRANKS", "MPI_LOCALRANKID", "MPICH's or Intel MPI's mpiexec"},
};

static long env_number(const char *name)
{
    const char *text = tb_env(name);

    return text ? strtol(text, NULL, 10) : -1;
}

static tb_err foreign_launcher(const char *who, const char *variable)
{
    return tb_fail(TB_ERR_NOTSUP,
                   "started by %s (%s=%s), which offers no PMI-1 to talk to, "
                   "so the ranks cannot find each other; start the program "
                   "with tbmpirun, or with MPICH's mpiexec%s",
                   who, variable, tb_env(variable),
                   strstr(who, "srun") ? ", or with srun --mpi=pmi2" : "");
}

/* N silent singletons are nobody's wish. */
static tb_err refuse_foreign(void)
{
    if (tb_env("TBMPI_INSIDE"))
        return TB_OK; /* below a rank, whose launcher these speak of */
    for (size_t i = 0; i < TB_COUNT_OF(foreign); i++) {
        if (env_number(foreign[i].size) > 1 &&
            (!foreign[i].rank || tb_env(foreign[i].rank)))
            return foreign_launcher(foreign[i].who, foreign[i].size);
    }
    if (env_number("PMIX_RANK") > 0)
        return foreign_launcher("a PMIx launcher", "PMIX_RANK");
    return TB_OK;
}

/* Child processes are on their own: they must neither join nor disturb. */
static void leave_environment(void)
{
    static const char *const names[] = {
        "PMI_FD",   "PMI_PORT",    "PMI_ID",       "PMI_RANK",
        "PMI_SIZE", "PMI_SPAWNED", "TBMPI_SHM_FD",
    };
    char pid[24];

    for (size_t i = 0; i < TB_COUNT_OF(names); i++)
        unsetenv(names[i]);
    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    setenv("TBMPI_INSIDE", pid, 1);
}

static tb_err use_descriptor(struct tb_boot *b, long fd)
{
    long rank = env_number("PMI_RANK"), size = env_number("PMI_SIZE");

    if (rank < 0 || size < 1 || size > SIZE_MOST || rank >= size)
        return tb_fail(TB_ERR_PROTOCOL,
                       "the launcher set PMI_FD but not a sensible PMI_RANK "
                       "and PMI_SIZE (%ld of %ld)",
                       rank, size);
    b->fd = (int)fd;
    b->rank = (int)rank;
    b->size = (int)size;
    return TB_OK;
}

static tb_err dial(struct tb_boot *b, const char *where)
{
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM}, *found, *a;
    const char *colon = strrchr(where, ':');
    char host[NAME_BYTES];
    int code;

    if (!colon || (size_t)(colon - where) >= sizeof(host))
        return tb_fail(TB_ERR_PROTOCOL, "PMI_PORT is \"%.80s\", not host:port",
                       where);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - where), where);
    code = getaddrinfo(host, colon + 1, &hint, &found);
    if (code)
        return tb_fail(TB_ERR_SYSTEM, "cannot resolve PMI_PORT \"%.80s\": %s",
                       where, gai_strerror(code));
    errno = EHOSTUNREACH;
    for (a = found; a && b->fd < 0; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
            code = errno;
            close(fd);
            errno = code;
        } else {
            b->fd = fd;
        }
    }
    freeaddrinfo(found);
    if (b->fd < 0)
        return tb_fail_errno("cannot reach the launcher at PMI_PORT %.80s",
                             where);
    return TB_OK;
}

/* The answer gives size, rank and a debug flag, in any order. */
static tb_err use_port(struct tb_boot *b, const char *where)
{
    TB_TRY(dial(b, where));
    TB_TRY(send_line(b, "cmd=initack pmiid=%ld", env_number("PMI_ID")));
    TB_TRY(expect(b, "initack", ANSWER_MS));
    for (int i = 0; i < 3; i++) {
        TB_TRY(expect(b, "set", ANSWER_MS));
        number(b, "size", &b->size);
        number(b, "rank", &b->rank);
    }
    if (b->size < 1 || b->size > SIZE_MOST || b->rank < 0 || b->rank >= b->size)
        return tb_fail(TB_ERR_PROTOCOL, "the launcher says rank %d of %d",
                       b->rank, b->size);
    return TB_OK;
}

static tb_err say_hello(struct tb_boot *b)
{
    int n;

    TB_TRY(send_line(b, "cmd=init pmi_version=1 pmi_subversion=1"));
    TB_TRY(expect(b, "response_to_init", ANSWER_MS));
    if (number(b, "rc", &n) && n)
        return tb_fail(TB_ERR_PROTOCOL,
                       "the launcher does not speak PMI 1.1: \"%.80s\"",
                       b->line);
    TB_TRY(send_line(b, "cmd=get_maxes"));
    TB_TRY(expect(b, "maxes", ANSWER_MS));
    if (number(b, "vallen_max", &n) && n >= VALUE_LEAST)
        b->value_max = TB_MIN((size_t)n, LINE_BYTES / 2);
    if (number(b, "keylen_max", &n) && n > 0)
        b->key_max = (size_t)n;
    TB_TRY(send_line(b, "cmd=get_my_kvsname"));
    TB_TRY(expect(b, "my_kvsname", ANSWER_MS));
    if (!word(b, "kvsname", b->kvs, sizeof(b->kvs)))
        return tb_fail(TB_ERR_PROTOCOL, "the launcher names no key space");
    TB_TRY(send_line(b, "cmd=get_appnum"));
    TB_TRY(expect(b, "appnum", ANSWER_MS));
    number(b, "appnum", &b->appnum);
    TB_TRY(send_line(b, "cmd=get_universe_size"));
    TB_TRY(expect(b, "universe_size", ANSWER_MS));
    number(b, "size", &b->universe);
    return TB_OK;
}

/* True when PMI_FD is an open descriptor. */
static bool has_descriptor(long *fd)
{
    *fd = env_number("PMI_FD");
    return *fd >= 0 && *fd <= INT32_MAX && fcntl((int)*fd, F_GETFD) >= 0;
}

/*
 * Whether another process has already used this environment to start. It is a
 * child of that one, then, that got a copy of the variables made earlier
 * (Python's os.environ is one), and is on its own. The job board, which an
 * ancestor still holds, knows.
 */
static bool is_spent(const struct tb_config *config)
{
    long rank = env_number("PMI_RANK"), size = env_number("PMI_SIZE");
    struct tb_segment_plan plan;
    void *segment;
    size_t bytes;
    bool spent;

    if (config->shm_fd < 0 || rank < 0 || size > SIZE_MOST || rank >= size ||
        tb_segment_find(&segment, &bytes, (int)config->shm_fd, (int)size))
        return false;
    spent = !tb_segment_plan(&plan, (int)size, bytes, 0) &&
            tb_segment_note(segment, &plan, (int)rank)->pid != 0;
    tb_share_unmap(segment, bytes);
    return spent;
}

static tb_err meet_launcher(struct tb_boot *b, const struct tb_config *config)
{
    const char *port = tb_env("PMI_PORT");
    long fd;

    if (has_descriptor(&fd))
        TB_TRY(use_descriptor(b, fd));
    else if (port)
        TB_TRY(use_port(b, port));
    else if (fd >= 0 && is_spent(config))
        return TB_OK;
    else if (fd >= 0)
        return tb_fail(TB_ERR_SYSTEM,
                       "the connection to the launcher (descriptor %ld, "
                       "PMI_FD) is closed: a script or program between the "
                       "launcher and this one closes inherited descriptors; "
                       "start the program directly, or let that wrapper leave "
                       "them open (Python's subprocess: close_fds=False)",
                       fd);
    else
        return refuse_foreign();
    fcntl(b->fd, F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
    setsockopt(b->fd, SOL_SOCKET, SO_NOSIGPIPE, &(int){1}, sizeof(int));
#endif
    return say_hello(b);
}

tb_err tb_boot_open(struct tb_boot **out, const struct tb_config *config)
{
    struct tb_boot *b = tb_calloc(1, sizeof(*b));
    tb_err err;

    if (!b)
        return tb_fail(TB_ERR_NO_MEM, "no memory to start");
    b->fd = b->appnum = b->universe = -1;
    b->size = 1;
    b->value_max = VALUE_LEAST;
    b->key_max = VALUE_LEAST;
    err = meet_launcher(b, config);
    if (err) {
        if (b->fd >= 0)
            close(b->fd);
        tb_free(b);
        return err;
    }
    if (b->fd >= 0)
        tb_follow_parent();
    leave_environment();
    *out = b;
    return TB_OK;
}

bool tb_boot_launched(const struct tb_boot *boot)
{
    return boot->fd >= 0;
}

int tb_boot_rank(const struct tb_boot *boot)
{
    return boot->rank;
}

int tb_boot_size(const struct tb_boot *boot)
{
    return boot->size;
}

int tb_boot_appnum(const struct tb_boot *boot)
{
    return boot->appnum;
}

int tb_boot_universe(const struct tb_boot *boot)
{
    return boot->universe;
}

/* --------------------------------------------------------------- key space */

/*
 * A value travels as hexadecimal digits in pieces key.0, key.1, …; the first
 * begins with the number of bytes and a colon.
 */
static const char digits[] = "0123456789abcdef";

static tb_err put_piece(struct tb_boot *b, const char *key, int piece,
                        const char *text)
{
    int rc = 0;

    TB_TRY(send_line(b, "cmd=put kvsname=%s key=%s.%d value=%s", b->kvs, key,
                     piece, text));
    TB_TRY(expect(b, "put_result", ANSWER_MS));
    if (number(b, "rc", &rc) && rc)
        return tb_fail(TB_ERR_PROTOCOL, "the launcher refused \"%s\": %.80s",
                       key, b->line);
    return TB_OK;
}

tb_err tb_boot_put(struct tb_boot *b, const char *key, const void *value,
                   size_t bytes)
{
    const unsigned char *p = value;
    char text[LINE_BYTES / 2 + 1];
    size_t used, at = 0;

    if (b->fd < 0)
        return tb_fail(TB_ERR_NOTSUP, "no launcher to keep \"%s\"", key);
    used = (size_t)snprintf(text, sizeof(text), "%zu:", bytes);
    for (int piece = 0; piece == 0 || at < bytes; piece++) {
        /* The limit counts the terminating zero. */
        for (; at < bytes && used + 2 < b->value_max; at++) {
            text[used++] = digits[p[at] >> 4];
            text[used++] = digits[p[at] & 15];
        }
        text[used] = 0;
        used = 0;
        TB_TRY(put_piece(b, key, piece, text));
    }
    return TB_OK;
}

static tb_err get_piece(struct tb_boot *b, const char *key, int piece,
                        char *text, size_t room)
{
    int rc = 0;

    TB_TRY(send_line(b, "cmd=get kvsname=%s key=%s.%d", b->kvs, key, piece));
    TB_TRY(expect(b, "get_result", ANSWER_MS));
    if ((number(b, "rc", &rc) && rc) || !word(b, "value", text, room))
        return tb_fail(TB_ERR_NAME, "the launcher has no \"%s\"", key);
    return TB_OK;
}

static int digit(char c)
{
    const char *p = c ? strchr(digits, c) : NULL;

    return p ? (int)(p - digits) : -1;
}

tb_err tb_boot_get(struct tb_boot *b, const char *key, void *value, size_t room,
                   size_t *bytes)
{
    unsigned char *out = value;
    char text[LINE_BYTES], *p = text;
    size_t total = 0, at = 0;

    if (b->fd < 0)
        return tb_fail(TB_ERR_NOTSUP, "no launcher to ask for \"%s\"", key);
    for (int piece = 0; piece == 0 || at < total; piece++) {
        size_t before = at;
        TB_TRY(get_piece(b, key, piece, text, sizeof(text)));
        p = text;
        if (piece == 0) {
            total = strtoull(text, &p, 10);
            if (*p++ != ':' || total > room)
                return tb_fail(TB_ERR_PROTOCOL, "\"%s\" has a wrong length",
                               key);
        }
        for (; *p && at < total; p += 2) {
            int high = digit(p[0]), low = high < 0 ? -1 : digit(p[1]);
            if (low < 0)
                break;
            out[at++] = (unsigned char)(high << 4 | low);
        }
        if (*p || (at == before && total))
            return tb_fail(TB_ERR_PROTOCOL, "\"%s\" is garbled", key);
    }
    *bytes = total;
    return TB_OK;
}

tb_err tb_boot_fence(struct tb_boot *b)
{
    if (b->fd < 0)
        return TB_OK;
    TB_TRY(send_line(b, "cmd=barrier_in"));
    return expect(b, "barrier_out", -1);
}

/* ----------------------------------------------------------------- leaving */

bool tb_boot_alive(struct tb_boot *b)
{
    char c;
    ssize_t n;

    if (b->fd < 0)
        return true;
    if (!b->gone) {
        n = recv(b->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
        b->gone = n == 0 || (n < 0 && errno == ECONNRESET);
    }
    return !b->gone;
}

void tb_boot_abort(struct tb_boot *b, int code, const char *why)
{
    (void)why; /* the job board has it; Hydra chokes on words it expects not */
    if (b->fd >= 0 && !b->gone)
        (void)send_line(b, "cmd=abort exitcode=%d", code);
}

void tb_boot_close(struct tb_boot *b)
{
    if (!b)
        return;
    if (b->fd >= 0) {
        if (!b->gone && !send_line(b, "cmd=finalize"))
            (void)expect(b, "finalize_ack", ANSWER_MS);
        close(b->fd);
    }
    tb_free(b);
}
