/* SPDX-License-Identifier: MIT */
/*
 * base: what every other layer stands on. Errors, settings, log, memory,
 * clock and the doorbell. Nothing here knows of ranks, packets or MPI, and
 * only this folder asks which operating system it runs on.
 */
#ifndef TB_BASE_H
#define TB_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Apple silicon has 128-byte cache lines and 16 KiB pages; a layout made for
 * the larger of both worlds is right in either. */
#define TB_LINE 128
#define TB_PAGE 16384

/* What one transfer between caches moves here: the unit of ring records. A
 * build may set another, to try what is usual elsewhere. */
#if defined(TB_GRAIN)
#elif defined(__APPLE__) && defined(__aarch64__)
#define TB_GRAIN 128
#else
#define TB_GRAIN 64
#endif

#define TB_LIKELY(x) __builtin_expect(!!(x), 1)
#define TB_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define TB_INLINE inline __attribute__((always_inline))
#define TB_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define TB_COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))
#define TB_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TB_MAX(a, b) ((a) > (b) ? (a) : (b))

/* The struct of type `type` whose member `member` is at `ptr`. */
#define TB_CONTAINER(ptr, type, member) \
    ((type *)((char *)(ptr)-offsetof(type, member)))

/* `n` rounded up to a multiple of `to`, a power of two. */
static inline size_t tb_round_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/* ------------------------------------------------------------------ errors */

/*
 * Every error there is: name, MPI error class, text. An internal function
 * that can fail returns a tb_err; 0 is success. The class names are expanded
 * only in mpi/errh.c, so that no layer below it needs mpi.h.
 *
 * The first group never leaves the layer that understands it: AGAIN means
 * "no credit now, come back after a poll", LOST "that peer is gone".
 */
#define TB_ERRORS(X)                                                          \
    X(AGAIN, MPI_ERR_OTHER, "no room now")                                    \
    X(LOST, MPI_ERR_OTHER, "the peer is gone")                                \
    X(NOTSUP, MPI_ERR_UNSUPPORTED_OPERATION, "not supported here")            \
    X(SYSTEM, MPI_ERR_OTHER, "the operating system refused")                  \
    X(PROTOCOL, MPI_ERR_INTERN, "a peer broke the protocol")                  \
    X(BUFFER, MPI_ERR_BUFFER, "invalid buffer")                               \
    X(COUNT, MPI_ERR_COUNT, "invalid count")                                  \
    X(TYPE, MPI_ERR_TYPE, "invalid datatype")                                 \
    X(TAG, MPI_ERR_TAG, "invalid tag")                                        \
    X(COMM, MPI_ERR_COMM, "invalid communicator")                             \
    X(RANK, MPI_ERR_RANK, "invalid rank")                                     \
    X(REQUEST, MPI_ERR_REQUEST, "invalid request")                            \
    X(ROOT, MPI_ERR_ROOT, "invalid root")                                     \
    X(GROUP, MPI_ERR_GROUP, "invalid group")                                  \
    X(OP, MPI_ERR_OP, "invalid reduction operation")                          \
    X(TOPOLOGY, MPI_ERR_TOPOLOGY, "invalid topology")                         \
    X(DIMS, MPI_ERR_DIMS, "invalid dimensions")                               \
    X(ARG, MPI_ERR_ARG, "invalid argument")                                   \
    X(UNKNOWN, MPI_ERR_UNKNOWN, "unknown error")                              \
    X(TRUNCATE, MPI_ERR_TRUNCATE, "message longer than the receive buffer")   \
    X(OTHER, MPI_ERR_OTHER, "other error")                                    \
    X(INTERN, MPI_ERR_INTERN, "internal error")                               \
    X(PENDING, MPI_ERR_PENDING, "the request is still pending")               \
    X(IN_STATUS, MPI_ERR_IN_STATUS, "the error code is in the status")        \
    X(ACCESS, MPI_ERR_ACCESS, "permission denied")                            \
    X(AMODE, MPI_ERR_AMODE, "invalid access mode")                            \
    X(ASSERT, MPI_ERR_ASSERT, "invalid assertion")                            \
    X(BAD_FILE, MPI_ERR_BAD_FILE, "invalid file name")                        \
    X(BASE, MPI_ERR_BASE, "invalid base address")                             \
    X(CONVERSION, MPI_ERR_CONVERSION, "data conversion failed")               \
    X(DISP, MPI_ERR_DISP, "invalid displacement")                             \
    X(DUP_DATAREP, MPI_ERR_DUP_DATAREP, "data representation exists already") \
    X(FILE_EXISTS, MPI_ERR_FILE_EXISTS, "the file exists already")            \
    X(FILE_IN_USE, MPI_ERR_FILE_IN_USE, "the file is in use")                 \
    X(FILE, MPI_ERR_FILE, "invalid file handle")                              \
    X(INFO_KEY, MPI_ERR_INFO_KEY, "invalid info key")                         \
    X(INFO_NOKEY, MPI_ERR_INFO_NOKEY, "no such info key")                     \
    X(INFO_VALUE, MPI_ERR_INFO_VALUE, "invalid info value")                   \
    X(INFO, MPI_ERR_INFO, "invalid info object")                              \
    X(IO, MPI_ERR_IO, "input or output failed")                               \
    X(KEYVAL, MPI_ERR_KEYVAL, "invalid attribute key")                        \
    X(LOCKTYPE, MPI_ERR_LOCKTYPE, "invalid lock type")                        \
    X(NAME, MPI_ERR_NAME, "no such published name")                           \
    X(NO_MEM, MPI_ERR_NO_MEM, "out of memory")                                \
    X(NOT_SAME, MPI_ERR_NOT_SAME, "arguments differ between ranks")           \
    X(NO_SPACE, MPI_ERR_NO_SPACE, "no space left")                            \
    X(NO_SUCH_FILE, MPI_ERR_NO_SUCH_FILE, "no such file")                     \
    X(PORT, MPI_ERR_PORT, "invalid port name")                                \
    X(QUOTA, MPI_ERR_QUOTA, "quota exceeded")                                 \
    X(READ_ONLY, MPI_ERR_READ_ONLY, "read-only file or file system")          \
    X(RMA_ATTACH, MPI_ERR_RMA_ATTACH, "memory cannot be attached")            \
    X(RMA_CONFLICT, MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window") \
    X(RMA_RANGE, MPI_ERR_RMA_RANGE, "target memory is outside the window")    \
    X(RMA_SHARED, MPI_ERR_RMA_SHARED, "memory cannot be shared")              \
    X(RMA_SYNC, MPI_ERR_RMA_SYNC, "wrong synchronisation of RMA calls")       \
    X(RMA_FLAVOR, MPI_ERR_RMA_FLAVOR, "wrong kind of window")                 \
    X(SERVICE, MPI_ERR_SERVICE, "invalid service name")                       \
    X(SESSION, MPI_ERR_SESSION, "invalid session")                            \
    X(SIZE, MPI_ERR_SIZE, "invalid size")                                     \
    X(SPAWN, MPI_ERR_SPAWN, "cannot start processes")                         \
    X(UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_DATAREP,                       \
      "unsupported data representation")                                      \
    X(UNSUPPORTED, MPI_ERR_UNSUPPORTED_OPERATION, "not implemented yet")      \
    X(VALUE_TOO_LARGE, MPI_ERR_VALUE_TOO_LARGE,                               \
      "the value does not fit the argument's type")                           \
    X(WIN, MPI_ERR_WIN, "invalid window")                                     \
    X(PROC_ABORTED, MPI_ERR_PROC_ABORTED, "a peer process has ended")         \
    X(ERRHANDLER, MPI_ERR_ERRHANDLER, "invalid error handler")                \
    X(ABI, MPI_ERR_ABI, "ABI mismatch")

typedef int tb_err;

enum {
    TB_OK = 0,
#define X(name, class, text) TB_ERR_##name,
    TB_ERRORS(X)
#undef X
        TB_ERR_LIMIT
};

/* MPI codes that come from outside the list (a user's callback, a class the
 * program added) travel through the same return values, shifted. */
#define TB_ERR_FOREIGN 0x10000
static inline tb_err tb_err_foreign(int mpi_code)
{
    return mpi_code ? TB_ERR_FOREIGN + mpi_code : TB_OK;
}

/* Returns the expression's error to the caller, if it is one. */
#define TB_TRY(expr)              \
    do {                          \
        tb_err tb_try_ = (expr);  \
        if (TB_UNLIKELY(tb_try_)) \
            return tb_try_;       \
    } while (0)

/* The list's text for an error. Never NULL, never to be freed. */
const char *tb_err_text(tb_err err);

/*
 * Notes what exactly is wrong, for this thread, and returns `err`. Whoever
 * decides that something is an error calls this, once; callers pass the error
 * up. The text should name the argument, its value and the remedy. (A macro, so
 * that the compiler sees that what comes back is an error.)
 */
#define tb_fail(err, ...) (tb_fail_say(__VA_ARGS__), (err))
void tb_fail_say(const char *fmt, ...) TB_PRINTF(1, 2);

/* The same for a failed system call; adds the text of `errno`. */
tb_err tb_fail_errno(const char *fmt, ...) TB_PRINTF(1, 2);

/* The note of the last tb_fail on this thread; "" when there is none.
 * tb_fail_clear() forgets it, so that a later error does not inherit it. */
const char *tb_fail_note(void);
void tb_fail_clear(void);

/* -------------------------------------------------------------------- log */

enum tb_log_level { TB_LOG_ERROR, TB_LOG_WARN, TB_LOG_INFO, TB_LOG_DEBUG };

/* Prefix of each line from now on, e.g. "tbmpi 3@host". Copied. */
void tb_log_name(const char *prefix);

/* The level up to which lines appear; tb_config_load sets it. */
void tb_log_limit(enum tb_log_level level);

/* One line to standard error when `level` is within TBMPI_LOG. Lower case,
 * "key value" rather than "key=value". Never called for single packets. */
void tb_log(enum tb_log_level level, const char *fmt, ...) TB_PRINTF(2, 3);

/* ----------------------------------------------------------------- memory */

/* malloc and friends for the library's own objects. All go through one place
 * so that a test can make the n-th allocation fail (tb_mem_fail_after(n);
 * negative: never). NULL when there is no memory; size 0 gives a pointer. */
void *tb_alloc(size_t bytes);
void *tb_calloc(size_t n, size_t bytes);
void *tb_realloc(void *old, size_t bytes);
void *tb_alloc_aligned(size_t align, size_t bytes);
void tb_free(void *p);
char *tb_strdup(const char *s);
void tb_mem_fail_after(long n);

/* A free list of objects of one size. Not thread safe: the owner locks.
 * Memory returns to the system only in fini; put objects are scribbled over
 * in debug builds. */
struct tb_pool {
    void *free;
    void *chunks;
    size_t size;
    size_t live;
};
void tb_pool_init(struct tb_pool *pool, size_t object_bytes);
void tb_pool_fini(struct tb_pool *pool);
void *tb_pool_grow(struct tb_pool *pool); /* slow path of get */

static inline void *tb_pool_get(struct tb_pool *pool)
{
    void *p = pool->free;
    if (TB_UNLIKELY(!p))
        return tb_pool_grow(pool);
    pool->free = *(void **)p;
    pool->live++;
    return p;
}

static inline void tb_pool_put(struct tb_pool *pool, void *p)
{
#ifdef TB_DEBUG
    memset(p, 0xdb, pool->size);
#endif
    *(void **)p = pool->free;
    pool->free = p;
    pool->live--;
}

/* ------------------------------------------------------------------ lists */

/* An intrusive doubly linked ring; an empty one points at itself. */
struct tb_list {
    struct tb_list *next, *prev;
};
static inline void tb_list_init(struct tb_list *l)
{
    l->next = l->prev = l;
}
static inline bool tb_list_empty(const struct tb_list *l)
{
    return l->next == l;
}
static inline void tb_list_append(struct tb_list *l, struct tb_list *item)
{
    item->prev = l->prev;
    item->next = l;
    l->prev->next = item;
    l->prev = item;
}
static inline void tb_list_remove(struct tb_list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    item->next = item->prev = item;
}

/* ------------------------------------------------------------------ clock */

/* Nanoseconds of a clock that never goes back and that all processes of a
 * machine share (CLOCK_MONOTONIC; on macOS it too runs since boot). */
uint64_t tb_now(void);
/* Resolution of that clock, in nanoseconds. */
uint64_t tb_clock_step(void);

/* --------------------------------------------------------------- machine */

/* Processors this process may use: affinity mask and cgroup quota on Linux,
 * performance cores on macOS. At least 1. */
int tb_cpus(void);

/* The same as a set, a bit a processor, so that the sets of several processes
 * can be united; numbers beyond the last bit fold. On macOS, which binds
 * nobody, the lowest bits. */
#define TB_CPU_WORDS 16
void tb_cpu_set(uint64_t set[TB_CPU_WORDS]);
/* How many processors of a set a job may use: the cgroup quota counts. */
int tb_cpus_of(const uint64_t set[TB_CPU_WORDS]);

/* Gives the processor to whoever is ready to run. */
void tb_yield(void);

/* Tells the processor that this is a spin loop. */
static inline void tb_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The machine's name without asking any resolver; at most `size` bytes with
 * the terminating zero. TBMPI_HOST_NAME replaces it: an emulated Mac's. */
void tb_host_name(char *out, size_t size);

/* A number that is equal for two processes exactly when they share a running
 * kernel and the name of it, and so can share memory. */
uint64_t tb_host_id(void);

/* Unpredictable bits, for nonces and names. Not for secrets. */
uint64_t tb_random(void);

/* Asks the system to end this process when its parent dies, where it can. */
void tb_follow_parent(void);

/* Copies to memory that another processor reads next, and this one does not;
 * the fastest way there is. Ordered before a later release store. */
void tb_copy_away(void *to, const void *from, size_t bytes);

/* ------------------------------------------------------- other processes */

/* True when no process has this number any more. 0 is never gone. */
bool tb_process_gone(uint32_t pid);

/* True when it is stopped, by SIGSTOP or a debugger, and the system says so. */
bool tb_process_stopped(uint32_t pid);

/* The parent of process `pid`; 0: the system does not tell. */
uint32_t tb_process_parent(uint32_t pid);

/* Whether this system can copy another process's memory at all. */
bool tb_process_can_read(void);

/* Copies from another process's memory; *done leading bytes are right, also
 * when TB_ERR_NOTSUP says that the system refused the rest. */
tb_err tb_process_read(uint32_t pid, uint64_t remote, void *local, size_t bytes,
                       size_t *done);

/* Lets process `pid` and its descendants read this one's memory, where such a
 * permission is needed. One at a time: the last call counts. */
void tb_process_admit(uint32_t pid);

/* --------------------------------------------------------------- sockets */

/* A connected stream socket: from now on nothing on it blocks, it is closed on
 * exec, and where the protocol can tell, it ends when the other machine has
 * not acknowledged anything for `dead_after_s` seconds. */
tb_err tb_stream_prepare(int fd, int dead_after_s);

/* The same for a connection whose peer may leave its data unread for as long
 * as it likes, because it computes. Only one that has nothing on its way ends
 * by itself when the other machine is gone; of the others tb_stream_silent
 * says whether that has left everything unanswered for so many seconds. */
tb_err tb_stream_keep(int fd, int dead_after_s);
bool tb_stream_silent(int fd, int seconds);

/* Bytes read or written; 0: not now; -1: at its end, or broken. */
long tb_stream_read(int fd, void *to, size_t room);
long tb_stream_write(int fd, const void *from, size_t bytes);

/* Writes several pieces of memory, at most TB_SPANS_MOST, as one. */
#define TB_SPANS_MOST 2
struct tb_span {
    const void *data;
    size_t bytes;
};
long tb_stream_gather(int fd, const struct tb_span *spans, int n);

/* Closes; what was written before still arrives. */
void tb_stream_close(int fd);

/* ---------------------------------------------------------- shared memory */

/* Maps all of `fd`, readable and writable, not inherited by fork. The caller
 * keeps the descriptor. */
tb_err tb_share_map(int fd, size_t bytes, void **out);
void tb_share_unmap(void *p, size_t bytes);

/* The same, or with -1 as much private memory, at an address that is a multiple
 * of TB_PAGE, and where `bytes` is at most `line` in one piece between two
 * multiples of that power of two; a longer one begins at such a multiple. */
tb_err tb_share_place(int fd, size_t bytes, size_t line, void **out);
tb_err tb_share_size(int fd, size_t *bytes);

/* Opens what descriptor `fd` of process `pid` refers to, where the system
 * offers that; the caller closes *out. */
tb_err tb_share_reopen(uint32_t pid, int fd, int *out);

/* A piece of shared memory, in a form that can be told to other processes of
 * this machine. */
struct tb_share {
    uint32_t pid;  /* of the maker */
    int32_t fd;    /* there */
    char name[32]; /* "": it has none, and needs none */
};

/* Makes one, 0600, zero filled, the memory taken at once where the system
 * can. Where tb_share_reopen works it has no name from the start, so that
 * whoever is killed when, nothing stays; elsewhere it keeps its name until
 * tb_share_release, which the maker calls when the others have attached. */
tb_err tb_share_make(struct tb_share *out, size_t bytes);
void tb_share_release(const struct tb_share *share);

/* Maps it, here or in another process, for which the maker must still live. */
tb_err tb_share_attach(const struct tb_share *share, size_t bytes, void **out);

/* --------------------------------------------------------------- doorbell */

/*
 * The one thing a process sleeps on. It lies in memory shared with whoever
 * may ring it. One owner; any number of ringers, in any process.
 *
 * Owner:  t = tb_bell_arm(b); look once more for work;
 *         if there is none, tb_bell_sleep(b, t, ns); always tb_bell_disarm(b).
 * Ringer: publish the work, then tb_bell_ring(b).
 *
 * Ordering: arm stores `armed` and ring loads it, each with a sequentially
 * consistent fence between that access and the work itself. So either the
 * ringer sees `armed`, or the owner's second look sees the work: no wake-up
 * is lost. An all-zero bell is a valid one.
 */
struct tb_bell {
    _Alignas(TB_LINE) _Atomic uint32_t word; /* changes with each wake-up */
    _Atomic uint32_t armed; /* the owner sleeps or will; 2: in poll(2) */
};

uint32_t tb_bell_arm(struct tb_bell *b);
/* Sleeps until the bell is rung, at most `ns` nanoseconds. May return early
 * for no reason. */
void tb_bell_sleep(struct tb_bell *b, uint32_t ticket, uint64_t ns);
void tb_bell_wake(struct tb_bell *b); /* slow path of ring */

/*
 * An owner that waits for sockets too sleeps in poll(2) instead, on them and
 * on a pipe (tb_bell_arm_pipe instead of arm and sleep; disarm as ever). Who
 * rings writes a byte into that pipe: its descriptor is told once to each
 * process that may ring, with tb_bell_pipe, and stays the caller's. A ringer
 * that has not been told leaves the owner asleep for as long as its poll may
 * take. Forget a bell before its memory goes. TB_ERR_NO_MEM.
 */
void tb_bell_arm_pipe(struct tb_bell *b);
tb_err tb_bell_pipe(struct tb_bell *b, int fd);
void tb_bell_forget(const struct tb_bell *b);

static inline void tb_bell_disarm(struct tb_bell *b)
{
    atomic_store_explicit(&b->armed, 0, memory_order_relaxed);
}

static inline void tb_bell_ring(struct tb_bell *b)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (TB_UNLIKELY(atomic_load_explicit(&b->armed, memory_order_relaxed)))
        tb_bell_wake(b);
}

#endif
