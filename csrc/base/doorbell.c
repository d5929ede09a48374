/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a word of shared memory: futex on Linux, on macOS 14.4 and later
 * os_sync_wait_on_address, elsewhere naps that grow up to 100 us.
 */
#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <time.h>

#define NS 1000000000u

#if defined(__linux__)

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

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

uint32_t tb_bell_arm(struct tb_bell *b)
{
    uint32_t ticket = atomic_load_explicit(&b->word, memory_order_relaxed);

    atomic_store_explicit(&b->armed, 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
    return ticket;
}

void tb_bell_sleep(struct tb_bell *b, uint32_t ticket, uint64_t ns)
{
    if (ns)
        word_sleep(&b->word, ticket, ns);
}

void tb_bell_wake(struct tb_bell *b)
{
    /* The first of several ringers makes the system call. */
    if (!atomic_exchange_explicit(&b->armed, 0, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&b->word, 1, memory_order_release);
    word_wake(&b->word);
}
