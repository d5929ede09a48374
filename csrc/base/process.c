/* SPDX-License-Identifier: MIT */
/* Other processes: do they live, and may their memory be read? */
#include "base/base.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

bool tb_process_gone(uint32_t pid)
{
    return pid && kill((pid_t)pid, 0) && errno == ESRCH;
}

#if defined(__linux__)

#include <sys/prctl.h>
#include <sys/uio.h>

/* One call copies at most this much, so that a signal waits milliseconds. */
#define READ_BYTES ((size_t)16 << 20)

/* State and parent, as the system tells them; false: it does not. */
static bool read_stat(uint32_t pid, char *state, uint32_t *parent)
{
    char path[64], text[512], *p;
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%u/stat", pid);
    f = fopen(path, "re");
    if (f) {
        n = fread(text, 1, sizeof(text) - 1, f);
        fclose(f);
    }
    text[n] = 0;
    /* The name, in parentheses, may itself hold some. */
    p = strrchr(text, ')');
    return p && sscanf(p + 1, " %c %u", state, parent) == 2;
}

uint32_t tb_process_parent(uint32_t pid)
{
    uint32_t parent;
    char state;

    return read_stat(pid, &state, &parent) ? parent : 0;
}

bool tb_process_stopped(uint32_t pid)
{
    uint32_t parent;
    char state;

    return pid && read_stat(pid, &state, &parent) &&
           (state == 'T' || state == 't');
}

bool tb_process_can_read(void)
{
    return true;
}

tb_err tb_process_read(uint32_t pid, uint64_t remote, void *local, size_t bytes,
                       size_t *done)
{
    for (*done = 0; *done < bytes;) {
        size_t n = TB_MIN(bytes - *done, READ_BYTES);
        struct iovec to = {(char *)local + *done, n};
        struct iovec from = {(void *)(uintptr_t)(remote + *done), n};
        ssize_t got = process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return TB_ERR_NOTSUP;
        *done += (size_t)got;
    }
    return TB_OK;
}

void tb_process_admit(uint32_t pid)
{
#ifdef PR_SET_PTRACER
    /* Only the Yama module knows this call; without it nothing is needed. */
    prctl(PR_SET_PTRACER, (unsigned long)pid, 0, 0, 0);
#else
    (void)pid;
#endif
}

void tb_follow_parent(void)
{
    pid_t parent = getppid();

    /* Not SIGTERM: a program may catch or ignore that, and with its launcher
     * nobody is left who could end it by force. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        raise(SIGKILL);
}

#else

uint32_t tb_process_parent(uint32_t pid)
{
    return pid == (uint32_t)getpid() ? (uint32_t)getppid() : 0;
}

#if defined(__APPLE__)

#include <sys/sysctl.h>

bool tb_process_stopped(uint32_t pid)
{
    int name[] = {CTL_KERN, KERN_PROC, KERN_PROC_PID, (int)pid};
    struct kinfo_proc info;
    size_t bytes = sizeof(info);

    return pid && !sysctl(name, TB_COUNT_OF(name), &info, &bytes, NULL, 0) &&
           bytes >= sizeof(info) && info.kp_proc.p_stat == SSTOP;
}

#else

bool tb_process_stopped(uint32_t pid)
{
    (void)pid;
    return false;
}

#endif

bool tb_process_can_read(void)
{
    return false;
}

tb_err tb_process_read(uint32_t pid, uint64_t remote, void *local, size_t bytes,
                       size_t *done)
{
    (void)pid, (void)remote, (void)local, (void)bytes;
    *done = 0;
    return TB_ERR_NOTSUP;
}

void tb_process_admit(uint32_t pid)
{
    (void)pid;
}

void tb_follow_parent(void) {}

#endif
