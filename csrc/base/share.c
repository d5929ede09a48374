/* SPDX-License-Identifier: MIT */
/* Shared memory: mapping it, naming it, keeping it away from children. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
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

tb_err tb_share_make(const char *name, size_t bytes, void **out)
{
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    tb_err err;

    if (fd < 0)
        return tb_fail_errno("cannot make the shared memory %s", name);
    if (reserve(fd, bytes)) {
        err = tb_fail_errno(
            "this job needs %zu MiB of shared memory on this machine, and "
            "there is not that much; free some or enlarge /dev/shm (in a "
            "container: --shm-size)",
            bytes >> 20);
    } else {
        err = tb_share_map(fd, bytes, out);
    }
    close(fd);
    if (err)
        shm_unlink(name);
    return err;
}

tb_err tb_share_attach(const char *name, size_t bytes, void **out)
{
    int fd = shm_open(name, O_RDWR, 0);
    size_t found = 0;
    tb_err err;

    if (fd < 0)
        return tb_fail_errno("cannot open the shared memory %s", name);
    err = tb_share_size(fd, &found);
    if (!err && found < bytes)
        err = tb_fail(TB_ERR_SYSTEM,
                      "the shared memory %s has %zu bytes, not %zu", name,
                      found, bytes);
    if (!err)
        err = tb_share_map(fd, bytes, out);
    close(fd);
    return err;
}

void tb_share_unname(const char *name)
{
    shm_unlink(name);
}
