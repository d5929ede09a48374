/* SPDX-License-Identifier: MIT */
/* Shared memory: mapping it, naming it, keeping it away from children. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <mach/vm_inherit.h>
#endif

/* A child of fork neither needs the rings nor may touch them (D15). */
static void keep_from_children(void *p, size_t bytes)
{
#if defined(__linux__)
    madvise(p, bytes, MADV_DONTFORK);
#elif defined(__APPLE__)
    minherit(p, bytes, VM_INHERIT_NONE);
#else
    (void)p, (void)bytes;
#endif
}

/* Takes the memory now: a full /dev/shm is then an error here and not a bus
 * error at some later store. */
static int reserve(int fd, size_t bytes)
{
#if defined(__linux__)
    int code = posix_fallocate(fd, 0, (off_t)bytes);

    errno = code;
    return code ? -1 : 0;
#else
    return ftruncate(fd, (off_t)bytes);
#endif
}

tb_err tb_share_map(int fd, size_t bytes, void **out)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (p == MAP_FAILED)
        return tb_fail_errno("cannot map %zu bytes of shared memory", bytes);
    keep_from_children(p, bytes);
    *out = p;
    return TB_OK;
}

/* Address space is taken first, without memory, and the right part of it then
 * mapped for good. */
tb_err tb_share_place(int fd, size_t bytes, size_t line, void **out)
{
    size_t room = bytes + TB_MIN(bytes, line) + TB_PAGE;
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANON : MAP_SHARED;
    char *space = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
    uintptr_t at, end;

    if (space == MAP_FAILED)
        return tb_fail_errno("no address space for %zu bytes of pool", bytes);
    at = tb_round_up((uintptr_t)space, TB_PAGE);
    if (at / line != (at + bytes - 1) / line)
        at = tb_round_up(at, line);
    end = tb_round_up(at + bytes, TB_PAGE);
    if (mmap((void *)at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd,
             0) == MAP_FAILED) {
        tb_err err = tb_fail_errno("cannot map %zu bytes of pool", bytes);
        munmap(space, room);
        return err;
    }
    if (at > (uintptr_t)space)
        munmap(space, at - (uintptr_t)space);
    if (end < (uintptr_t)space + room)
        munmap((void *)end, (uintptr_t)space + room - end);
    keep_from_children((void *)at, bytes);
    *out = (void *)at;
    return TB_OK;
}

void tb_share_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

tb_err tb_share_size(int fd, size_t *bytes)
{
    struct stat st;

    if (fstat(fd, &st))
        return tb_fail_errno("descriptor %d", fd);
    if (st.st_size < 0)
        return tb_fail(TB_ERR_SYSTEM, "descriptor %d has no size", fd);
    *bytes = (size_t)st.st_size;
    return TB_OK;
}

tb_err tb_share_reopen(uint32_t pid, int fd, int *out)
{
#if defined(__linux__)
    char path[64];

    snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
    *out = open(path, O_RDWR | O_CLOEXEC);
    if (*out >= 0)
        return TB_OK;
    return tb_fail_errno("%s", path);
#else
    (void)pid, (void)fd, (void)out;
    return TB_ERR_NOTSUP;
#endif
}

/* macOS: at most 31 characters, the slash included. */
static void choose_name(char *out, size_t room)
{
    snprintf(out, room, "/tbmpi-%d-%08" PRIx32, (int)getpid(),
             (uint32_t)tb_random());
}

/* Whether others can open it by its descriptor, so that it needs no name. */
static bool needs_no_name(const struct tb_share *share)
{
    int fd = -1;

    if (tb_share_reopen(share->pid, share->fd, &fd))
        return false;
    close(fd);
    return true;
}

tb_err tb_share_make(struct tb_share *out, size_t bytes)
{
    tb_err err;

    memset(out, 0, sizeof(*out));
    choose_name(out->name, sizeof(out->name));
    out->pid = (uint32_t)getpid();
    out->fd = shm_open(out->name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (out->fd < 0)
        return tb_fail_errno("cannot make the shared memory %s", out->name);
    if (needs_no_name(out)) {
        shm_unlink(out->name);
        out->name[0] = 0;
    }
    if (!reserve(out->fd, bytes))
        return TB_OK;
    err = tb_fail_errno(
        "this job needs %zu MiB of shared memory on this machine, and there "
        "is not that much; free some or enlarge /dev/shm (in a container: "
        "--shm-size)",
        bytes >> 20);
    tb_share_release(out);
    return err;
}

void tb_share_release(const struct tb_share *share)
{
    close(share->fd);
    if (share->name[0])
        shm_unlink(share->name);
}

static tb_err open_share(const struct tb_share *share, int *fd)
{
    if (share->pid == (uint32_t)getpid())
        *fd = dup(share->fd);
    else if (share->name[0])
        *fd = shm_open(share->name, O_RDWR, 0);
    else
        return tb_share_reopen(share->pid, share->fd, fd);
    if (*fd < 0)
        return tb_fail_errno("cannot open the shared memory %s of process %u",
                             share->name, (unsigned)share->pid);
    return TB_OK;
}

tb_err tb_share_attach(const struct tb_share *share, size_t bytes, void **out)
{
    size_t found = 0;
    tb_err err;
    int fd;

    TB_TRY(open_share(share, &fd));
    err = tb_share_size(fd, &found);
    if (!err && found < bytes)
        err = tb_fail(TB_ERR_SYSTEM,
                      "the shared memory of process %u has %zu bytes, not %zu",
                      (unsigned)share->pid, found, bytes);
    if (!err)
        err = tb_share_map(fd, bytes, out);
    close(fd);
    return err;
}
