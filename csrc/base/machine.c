/* SPDX-License-Identifier: MIT */
/* What this machine is: processors, name, identity. */
#include "base/base.h"
#include "base/config.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

/* 64-bit FNV-1a (Fowler, Noll, Vo). */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
    const unsigned char *p = data;

    for (size_t i = 0; i < bytes; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

#define HASH_START 0xcbf29ce484222325u

#if defined(__linux__)

static size_t read_file(const char *path, char *out, size_t room)
{
    FILE *f = fopen(path, "re");
    size_t n = 0;

    if (f) {
        n = fread(out, 1, room - 1, f);
        fclose(f);
    }
    out[n] = 0;
    return n;
}

/* Processors that the group's quota pays for, rounded up; 0: no quota. */
static int cgroup_cpus(void)
{
    char text[128];
    long long quota = 0, period = 0;

    if (read_file("/sys/fs/cgroup/cpu.max", text, sizeof(text))) {
        if (sscanf(text, "%lld %lld", &quota, &period) != 2)
            return 0;
    } else {
        if (read_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", text,
                      sizeof(text)))
            quota = atoll(text);
        if (read_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", text,
                      sizeof(text)))
            period = atoll(text);
    }
    if (quota <= 0 || period <= 0)
        return 0;
    return (int)TB_MIN((quota + period - 1) / period, 1 << 20);
}

#define CPUS_MOST 8192 /* more than any kernel is configured for */

static int quota_of(int cpus)
{
    int quota = cgroup_cpus();

    return quota > 0 ? TB_MIN(cpus, quota) : cpus;
}

static int usable_cpus(void)
{
    uint64_t mask[CPUS_MOST / 64];
    int n = 0;

    memset(mask, 0, sizeof(mask));
    if (sched_getaffinity(0, sizeof(mask), (cpu_set_t *)mask) == 0) {
        for (size_t i = 0; i < TB_COUNT_OF(mask); i++)
            n += __builtin_popcountll(mask[i]);
    }
    if (n < 1)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return quota_of(n);
}

static bool bound_cpus(uint64_t set[TB_CPU_WORDS])
{
    uint64_t mask[CPUS_MOST / 64];

    memset(mask, 0, sizeof(mask));
    if (sched_getaffinity(0, sizeof(mask), (cpu_set_t *)mask))
        return false;
    for (size_t i = 0; i < TB_COUNT_OF(mask); i++)
        set[i % TB_CPU_WORDS] |= mask[i];
    return true;
}

static uint64_t kernel_id(void)
{
    char text[64];
    size_t n = read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text));

    return n ? hash(HASH_START, text, n) : 0;
}

#elif defined(__APPLE__)

static int usable_cpus(void)
{
    int n = 0;
    size_t bytes = sizeof(n);

    /* Level 0 is the performance cores. */
    if (sysctlbyname("hw.perflevel0.logicalcpu", &n, &bytes, NULL, 0) || n < 1)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n;
}

static uint64_t kernel_id(void)
{
    char text[64] = "";
    size_t bytes = sizeof(text) - 1;

    if (sysctlbyname("kern.bootsessionuuid", text, &bytes, NULL, 0))
        return 0;
    return hash(HASH_START, text, bytes);
}

#else

static int usable_cpus(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static uint64_t kernel_id(void)
{
    return 0;
}

#endif

#if !defined(__linux__)

static int quota_of(int cpus)
{
    return cpus;
}

static bool bound_cpus(uint64_t set[TB_CPU_WORDS])
{
    (void)set;
    return false;
}

#endif

int tb_cpus(void)
{
    return TB_MAX(usable_cpus(), 1);
}

void tb_cpu_set(uint64_t set[TB_CPU_WORDS])
{
    int n;

    memset(set, 0, TB_CPU_WORDS * sizeof(*set));
    if (bound_cpus(set))
        return;
    n = TB_MIN(usable_cpus(), TB_CPU_WORDS * 64);
    for (int i = 0; i < n; i++)
        set[i / 64] |= (uint64_t)1 << i % 64;
}

int tb_cpus_of(const uint64_t set[TB_CPU_WORDS])
{
    int n = 0;

    for (int i = 0; i < TB_CPU_WORDS; i++)
        n += __builtin_popcountll(set[i]);
    return TB_MAX(quota_of(n), 1);
}

void tb_yield(void)
{
    sched_yield();
}

void tb_host_name(char *out, size_t size)
{
    const char *given = tb_env("TBMPI_HOST_NAME");

    if (!size)
        return;
    if (given && given[0])
        snprintf(out, size, "%s", given);
    else if (gethostname(out, size) || !out[0])
        snprintf(out, size, "unknown");
    out[size - 1] = 0;
}

uint64_t tb_host_id(void)
{
    const char *given = tb_env("TBMPI_HOST_NAME");
    uint64_t id = kernel_id();
    char name[256];

    if (id && !given)
        return id;
    tb_host_name(name, sizeof(name));
    return hash(id ? id : HASH_START, name, strlen(name));
}

uint64_t tb_random(void)
{
    static _Atomic uint64_t calls;
    uint64_t seed[4] = {0};

    if (getentropy(seed, sizeof(seed[0])))
        seed[0] = (uint64_t)(uintptr_t)&seed;
    seed[1] = tb_now();
    seed[2] = (uint64_t)getpid();
    seed[3] = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return hash(HASH_START, seed, sizeof(seed));
}
