/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a word of shared memory: futex on Linux, on macOS 14.4 and later
 * os_sync_wait_on_address, elsewhere naps that grow up to 100 us.
 */
#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000u

#if defined(__linux__)

#include <linux/futex.h>
#include <sys/syscall.h>

static void word_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    struct timespec t = {(time_t)(ns / NS), (long)(ns % NS)};

    /* Not FUTEX_PRIVATE: the ringer may be another process. */
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, seen, &t, NULL, 0);
}

static void word_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

#else

static void nap(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    uint64_t until = tb_now() + ns, step = 2000;

    while (atomic_load_explicit(word, memory_order_relaxed) == seen &&
           tb_now() < until) {
        struct timespec t = {0, (long)step};
        nanosleep(&t, NULL);
        step = TB_MIN(step * 2, 100000);
    }
}

#if defined(__APPLE__)

#include <dlfcn.h>

/* Looked up at run time: older systems lack them, and not every SDK that can
 * build this has os/os_sync_wait_on_address.h. Constants as Apple documents
 * them there. */
#define WAIT_SHARED 1u
#define CLOCK_ABSOLUTE                                     \
    32u /* OS_CLOCK_MACH_ABSOLUTE_TIME; the time-out is ns \
         */

typedef int wait_fn(void *addr, uint64_t value, size_t size, uint32_t flags,
                    uint32_t clock, uint64_t timeout_ns);
typedef int wake_fn(void *addr, size_t size, uint32_t flags);

static wait_fn *wait_on(void)
{
    static _Atomic(wait_fn *) found;
    wait_fn *f = atomic_load_explicit(&found, memory_order_relaxed);

    if (!f) {
        *(void **)&f =
            dlsym(RTLD_DEFAULT, "os_sync_wait_on_address_with_timeout");
        atomic_store_explicit(&found, f, memory_order_relaxed);
    }
    return f;
}

static wake_fn *wake_by(void)
{
    static _Atomic(wake_fn *) found;
    wake_fn *f = atomic_load_explicit(&found, memory_order_relaxed);

    if (!f) {
        *(void **)&f = dlsym(RTLD_DEFAULT, "os_sync_wake_by_address_all");
        atomic_store_explicit(&found, f, memory_order_relaxed);
    }
    return f;
}

static void word_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    wait_fn *wait = wake_by() ? wait_on() : NULL;

    if (!wait || (wait((void *)word, seen, sizeof(*word), WAIT_SHARED,
                       CLOCK_ABSOLUTE, ns) < 0 &&
                  errno == EINVAL))
        nap(word, seen, ns);
}

static void word_wake(_Atomic uint32_t *word)
{
    wake_fn *wake = wake_by();

    if (wake)
        wake((void *)word, sizeof(*word), WAIT_SHARED);
}

#else

static void word_sleep(_Atomic uint32_t *word, uint32_t seen, uint64_t ns)
{
    nap(word, seen, ns);
}

static void word_wake(_Atomic uint32_t *word)
{
    (void)word; /* who naps looks again */
}

#endif
#endif

/* ------------------------------------------------------------------- pipes */

enum { ARMED_WORD = 1, ARMED_PIPE = 2 };

/* What this process knows of the pipes of those it may ring. */
struct outlet {
    struct outlet *next;
    const struct tb_bell *bell;
    int fd;
};

static struct outlet *outlets;
static pthread_mutex_t outlets_lock = PTHREAD_MUTEX_INITIALIZER;

tb_err tb_bell_pipe(struct tb_bell *b, int fd)
{
    struct outlet *o = tb_alloc(sizeof(*o));

    if (!o)
        return tb_fail(TB_ERR_NO_MEM, "no memory for a doorbell's pipe");
    pthread_mutex_lock(&outlets_lock);
    *o = (struct outlet){outlets, b, fd};
    outlets = o;
    pthread_mutex_unlock(&outlets_lock);
    return TB_OK;
}

void tb_bell_forget(const struct tb_bell *b)
{
    struct outlet **at = &outlets;

    pthread_mutex_lock(&outlets_lock);
    while (*at) {
        struct outlet *o = *at;
        if (o->bell == b) {
            *at = o->next;
            tb_free(o);
        } else {
            at = &o->next;
        }
    }
    pthread_mutex_unlock(&outlets_lock);
}

/* A pipe that is full wakes its reader as well as one more byte would. */
static void pipe_wake(const struct tb_bell *b)
{
    pthread_mutex_lock(&outlets_lock);
    for (struct outlet *o = outlets; o; o = o->next) {
        if (o->bell == b) {
            ssize_t n = write(o->fd, "", 1);
            (void)n;
            break;
        }
    }
    pthread_mutex_unlock(&outlets_lock);
}

/* -------------------------------------------------------------------- bells */

static void arm(struct tb_bell *b, uint32_t how)
{
    atomic_store_explicit(&b->armed, how, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

uint32_t tb_bell_arm(struct tb_bell *b)
{
    uint32_t ticket = atomic_load_explicit(&b->word, memory_order_relaxed);

    arm(b, ARMED_WORD);
    return ticket;
}

void tb_bell_arm_pipe(struct tb_bell *b)
{
    arm(b, ARMED_PIPE);
}

void tb_bell_sleep(struct tb_bell *b, uint32_t ticket, uint64_t ns)
{
    if (ns)
        word_sleep(&b->word, ticket, ns);
}

void tb_bell_wake(struct tb_bell *b)
{
    /* The first of several ringers makes the system call. */
    uint32_t how = atomic_exchange_explicit(&b->armed, 0, memory_order_relaxed);

    if (!how)
        return;
    atomic_fetch_add_explicit(&b->word, 1, memory_order_release);
    if (how == ARMED_PIPE)
        pipe_wake(b);
    else
        word_wake(&b->word);
}
