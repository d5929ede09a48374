/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into programs on Linux, takes away what a Mac has not, so that they
 * have to do without: reading other processes' memory, memfd, pinning,
 * signals from a parent's death, event descriptors, /proc, /sys and /dev/shm as
 * folders, the host's name in the resolver, long names of shared memory and
 * long paths of sockets. Shared memory can be given a size once, and neither
 * read nor written by call. Pages have 16 KiB.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define SHM_NAME_MOST 31     /* PSHMNAMLEN, the slash included */
#define SOCKET_PATH_MOST 103 /* sun_path has 104 bytes, one is zero */
#define PAGE 16384
#define FDS 4096

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static char is_shm[FDS], has_size[FDS];

static int refuse(int why)
{
    errno = why;
    return -1;
}

/* ------------------------------------------------------- not there at all */

ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
                         unsigned long locals, const struct iovec *remote,
                         unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)local, (void)locals;
    (void)remote, (void)remotes, (void)flags;
    return refuse(ENOSYS);
}

int memfd_create(const char *name, unsigned flags)
{
    (void)name, (void)flags;
    return refuse(ENOSYS);
}

int sched_setaffinity(pid_t pid, size_t bytes, const cpu_set_t *set)
{
    (void)pid, (void)bytes, (void)set;
    return refuse(ENOSYS);
}

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void)pid, (void)bytes, (void)set;
    return refuse(ENOSYS);
}

int prctl(int option, ...)
{
    (void)option;
    return refuse(EINVAL);
}

int eventfd(unsigned value, int flags)
{
    (void)value, (void)flags;
    return refuse(ENOSYS);
}

int signalfd(int fd, const void *mask, int flags)
{
    (void)fd, (void)mask, (void)flags;
    return refuse(ENOSYS);
}

int pidfd_open(pid_t pid, unsigned flags)
{
    (void)pid, (void)flags;
    return refuse(ENOSYS);
}

/* ------------------------------------------------------------------- paths */

static int hidden(const char *path)
{
    static const char *const trees[] = {"/proc", "/sys", "/dev/shm"};

    for (size_t i = 0; i < sizeof(trees) / sizeof(*trees); i++) {
        size_t bytes = strlen(trees[i]);
        if (!strncmp(path, trees[i], bytes) &&
            (!path[bytes] || path[bytes] == '/'))
            return 1;
    }
    return 0;
}

static int mode_of(int flags, va_list more)
{
    int creates = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;

    return creates ? va_arg(more, int) : 0;
}

#define OPEN(name)                             \
    int name(const char *path, int flags, ...) \
    {                                          \
        va_list more;                          \
        int mode;                              \
                                               \
        va_start(more, flags);                 \
        mode = mode_of(flags, more);           \
        va_end(more);                          \
        if (hidden(path))                      \
            return refuse(ENOENT);             \
        if ((flags & O_TMPFILE) == O_TMPFILE)  \
            return refuse(EINVAL);             \
        return NEXT(name)(path, flags, mode);  \
    }

OPEN(open)
OPEN(open64)

#define FOPEN(name)                                \
    FILE *name(const char *path, const char *mode) \
    {                                              \
        if (hidden(path)) {                        \
            errno = ENOENT;                        \
            return NULL;                           \
        }                                          \
        return NEXT(name)(path, mode);             \
    }

FOPEN(fopen)
FOPEN(fopen64)

/* ----------------------------------------------------------- shared memory */

int shm_open(const char *name, int flags, mode_t mode)
{
    int fd;

    if (strlen(name) > SHM_NAME_MOST)
        return refuse(ENAMETOOLONG);
    fd = NEXT(shm_open)(name, flags, mode);
    if (fd >= 0 && fd < FDS) {
        is_shm[fd] = 1;
        has_size[fd] = !(flags & O_CREAT);
    }
    return fd;
}

static int shm(int fd)
{
    return fd >= 0 && fd < FDS && is_shm[fd];
}

int close(int fd)
{
    if (shm(fd))
        is_shm[fd] = 0;
    return NEXT(close)(fd);
}

static int resize(int fd)
{
    if (!shm(fd))
        return 1;
    if (has_size[fd])
        return 0;
    has_size[fd] = 1;
    return 1;
}

int ftruncate(int fd, off_t size)
{
    return resize(fd) ? NEXT(ftruncate)(fd, size) : refuse(EINVAL);
}

int ftruncate64(int fd, off64_t size)
{
    return resize(fd) ? NEXT(ftruncate64)(fd, size) : refuse(EINVAL);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    return shm(fd) ? refuse(ENXIO) : NEXT(write)(fd, data, bytes);
}

ssize_t read(int fd, void *data, size_t bytes)
{
    return shm(fd) ? refuse(ENXIO) : NEXT(read)(fd, data, bytes);
}

/* ------------------------------------------------------- sockets and names */

static int too_long(const struct sockaddr *address, socklen_t bytes)
{
    const struct sockaddr_un *un = (const void *)address;

    return address->sa_family == AF_UNIX &&
           bytes > offsetof(struct sockaddr_un, sun_path) &&
           strnlen(un->sun_path, sizeof(un->sun_path)) > SOCKET_PATH_MOST;
}

int bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return too_long(address, bytes) ? refuse(EINVAL)
                                    : NEXT(bind)(fd, address, bytes);
}

int connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    return too_long(address, bytes) ? refuse(EINVAL)
                                    : NEXT(connect)(fd, address, bytes);
}

int getaddrinfo(const char *name, const char *service,
                const struct addrinfo *hints, struct addrinfo **out)
{
    char own[256] = "";

    gethostname(own, sizeof(own) - 1);
    if (name && !strcmp(name, own))
        return EAI_NONAME;
    return NEXT(getaddrinfo)(name, service, hints, out);
}

/* ------------------------------------------------------------------- pages */

long sysconf(int name)
{
    return name == _SC_PAGESIZE ? PAGE : NEXT(sysconf)(name);
}

int getpagesize(void)
{
    return PAGE;
}
