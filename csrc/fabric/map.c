/* SPDX-License-Identifier: MIT */
/*
 * Mapping the state file, the control lock, and who lives.
 *
 * POSIX record locks belong to a process and end with it, killed or not, also
 * while nobody has waited for it yet; and they end when the process closes any
 * descriptor of the file. So a process opens a state file once and keeps it.
 */
#include "fabric/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_BYTE 0        /* of the control lock */
#define LIFE_BYTES 1048576 /* + slot: held while the process lives */
#define LOCK_NS 10000000000u
#define NAP_NS 100000

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;
static struct fab_map *maps;

static const char magic[8] = "tbfabr\n";

/* -------------------------------------------------------------- mapping */

size_t fab_stamp(struct fab_state *s)
{
    memcpy(s->magic, magic, sizeof(magic));
    s->layout = sizeof(struct fab_state);
    s->bytes = FAB_HEAD_BYTES + (uint64_t)s->devices * FAB_QPS * FAB_QP_BYTES;
    return s->bytes;
}

static tb_err check_state(const struct fab_state *s, size_t bytes,
                          const char *path)
{
    if (memcmp(s->magic, magic, sizeof(magic)))
        return tb_fail(TB_ERR_ARG, "%s is not a fabric's state file", path);
    if (s->layout != sizeof(struct fab_state) || s->bytes != bytes ||
        s->devices > FAB_DEVICES || s->cables > FAB_CABLES ||
        bytes != FAB_HEAD_BYTES + (size_t)s->devices * FAB_QPS * FAB_QP_BYTES)
        return tb_fail(TB_ERR_ARG,
                       "%s was made by another build of tbmpi: make it anew",
                       path);
    return TB_OK;
}

static tb_err map_file(struct fab_map *map)
{
    void *base = NULL;
    struct stat st;
    tb_err err;

    if (fstat(map->fd, &st))
        return tb_fail_errno("cannot look at the fabric %s", map->path);
    map->dev = st.st_dev;
    map->ino = st.st_ino;
    TB_TRY(tb_share_size(map->fd, &map->bytes));
    if (map->bytes < FAB_HEAD_BYTES)
        return tb_fail(TB_ERR_ARG, "%s is not a fabric's state file",
                       map->path);
    TB_TRY(tb_share_map(map->fd, map->bytes, &base));
    map->s = base;
    err = check_state(map->s, map->bytes, map->path);
    if (err)
        tb_share_unmap(map->s, map->bytes);
    return err;
}

static tb_err make_map(const char *path, struct fab_map **out)
{
    size_t length = strlen(path) + 1;
    struct fab_map *map = tb_calloc(1, sizeof(*map) + length);
    tb_err err;

    if (!map)
        return tb_fail(TB_ERR_NO_MEM, "no memory");
    memcpy(map->path, path, length);
    map->slot = -1;
    map->pid = (uint32_t)getpid();
    map->fd = open(path, O_RDWR | O_CLOEXEC);
    if (map->fd < 0) {
        err = tb_fail_errno("cannot open the fabric %s", path);
    } else {
        err = map_file(map);
        if (err)
            close(map->fd);
    }
    if (err)
        tb_free(map);
    else
        *out = map;
    return err;
}

/* The map of that file, under whatever name it was opened. A child of fork has
 * neither the mapping nor the locks of its parent. */
static struct fab_map *find_map(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return NULL;
    for (struct fab_map *map = maps; map; map = map->next) {
        if (map->pid == (uint32_t)getpid() && map->dev == st.st_dev &&
            map->ino == st.st_ino)
            return map;
    }
    return NULL;
}

tb_err fab_attach(const char *path, struct fab_map **out)
{
    struct fab_map *map;
    tb_err err = TB_OK;

    pthread_mutex_lock(&table_lock);
    map = find_map(path);
    if (!map) {
        err = make_map(path, &map);
        if (!err) {
            map->next = maps;
            maps = map;
        }
    }
    if (!err) {
        map->refs++;
        *out = map;
    }
    pthread_mutex_unlock(&table_lock);
    return err;
}

void fab_keep(struct fab_map *map)
{
    pthread_mutex_lock(&table_lock);
    map->refs++;
    pthread_mutex_unlock(&table_lock);
}

void fab_release(struct fab_map *map)
{
    pthread_mutex_lock(&table_lock);
    if (!--map->refs) {
        struct fab_map **link = &maps;
        while (*link != map)
            link = &(*link)->next;
        *link = map->next;
        if (map->pid == (uint32_t)getpid())
            tb_share_unmap(map->s, map->bytes);
        close(map->fd); /* and with it our lock of life */
        tb_free(map);
    }
    pthread_mutex_unlock(&table_lock);
}

/* ---------------------------------------------------------------- locks */

static int lock_byte(int fd, short type, off_t at)
{
    struct flock lock = {
        .l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    return fcntl(fd, F_SETLK, &lock);
}

/* The process that holds it, or 0. */
static uint32_t holder_of(int fd, off_t at)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

    if (fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK)
        return 0;
    return (uint32_t)lock.l_pid;
}

tb_err fab_lock(struct fab_map *map)
{
    uint64_t until = tb_now() + LOCK_NS;

    pthread_mutex_lock(&control);
    while (lock_byte(map->fd, F_WRLCK, LOCK_BYTE)) {
        struct timespec nap = {0, NAP_NS};
        tb_err err = TB_OK;
        if (errno != EACCES && errno != EAGAIN && errno != EINTR)
            err = tb_fail_errno("cannot lock the fabric %s", map->path);
        else if (tb_now() > until)
            err = tb_fail(TB_ERR_SYSTEM,
                          "the fabric %s has been locked by process %u for "
                          "10 s: is that stopped?",
                          map->path, holder_of(map->fd, LOCK_BYTE));
        if (err) {
            pthread_mutex_unlock(&control);
            return err;
        }
        nanosleep(&nap, NULL);
    }
    return TB_OK;
}

void fab_unlock(struct fab_map *map)
{
    lock_byte(map->fd, F_UNLCK, LOCK_BYTE);
    pthread_mutex_unlock(&control);
}

/* ------------------------------------------------------------ processes */

static bool has(const _Atomic uint32_t *word, int count, uint32_t owner)
{
    for (int i = 0; i < count; i++) {
        if (word[i] == owner)
            return true;
    }
    return false;
}

static bool holds_anything(const struct fab_state *s, uint32_t owner)
{
    for (uint32_t i = 0; i < s->devices; i++) {
        const struct fab_device *d = &s->device[i];
        for (int k = 0; k < FAB_QPS; k++) {
            if (d->qp[k].owner == owner)
                return true;
        }
        if (has(d->pd, FAB_PDS, owner) || has(d->cq, FAB_CQS, owner) ||
            has(d->mr, FAB_MRS, owner))
            return true;
    }
    return false;
}

tb_err fab_enrol(struct fab_map *map)
{
    struct fab_state *s = map->s;

    if (map->slot >= 0)
        return TB_OK;
    fab_reap(map);
    for (int i = 0; i < FAB_PROCS; i++) {
        struct fab_proc *p = &s->proc[i];
        if (p->pid || p->dead)
            continue;
        if (lock_byte(map->fd, F_WRLCK, LIFE_BYTES + i))
            return tb_fail_errno("cannot lock the fabric %s", map->path);
        p->hosts = 0;
        p->pid = map->pid;
        map->slot = i;
        return TB_OK;
    }
    return tb_fail(TB_ERR_SYSTEM,
                   "the fabric %s is used by %d processes: no "
                   "more can join",
                   map->path, FAB_PROCS);
}

void fab_qp_vacate(struct fab_device *d, struct fab_qp *qp)
{
    struct fab_tally *from = &qp->tally, *to = &d->gone;

    to->sends += from->sends;
    to->frames += from->frames;
    to->bytes += from->bytes;
    to->lost += from->lost;
    to->corrupted += from->corrupted;
    to->delayed += from->delayed;
    from->sends = from->frames = from->bytes = 0;
    from->lost = from->corrupted = from->delayed = 0;
    qp->state = TB_IBV_QPS_RESET;
    qp->dest = 0;
    qp->number = 0;
    qp->owner = 0;
}

static void clear(_Atomic uint32_t *word, int count, uint32_t owner)
{
    for (int i = 0; i < count; i++) {
        if (word[i] == owner)
            word[i] = 0;
    }
}

static void take_back_from(struct fab_device *d, uint32_t owner)
{
    for (int k = 0; k < FAB_QPS; k++) {
        if (d->qp[k].owner == owner)
            fab_qp_vacate(d, &d->qp[k]);
    }
    clear(d->mr, FAB_MRS, owner);
    clear(d->cq, FAB_CQS, owner);
    clear(d->pd, FAB_PDS, owner);
}

static void take_back(struct fab_state *s, uint32_t owner)
{
    for (uint32_t i = 0; i < s->devices; i++)
        take_back_from(&s->device[i], owner);
}

void fab_forget_leaks(struct fab_state *s, uint32_t host)
{
    for (uint32_t owner = 1; owner <= FAB_PROCS; owner++) {
        struct fab_proc *p = &s->proc[owner - 1];
        if (!p->dead)
            continue;
        for (uint32_t i = 0; i < s->devices; i++) {
            if (s->device[i].host == host)
                take_back_from(&s->device[i], owner);
        }
        if (!holds_anything(s, owner)) {
            p->pid = 0;
            p->dead = 0;
        }
    }
}

void fab_reap(struct fab_map *map)
{
    struct fab_state *s = map->s;

    for (int i = 0; i < FAB_PROCS; i++) {
        struct fab_proc *p = &s->proc[i];
        uint32_t owner = (uint32_t)i + 1;
        if (!p->pid || p->dead || i == map->slot ||
            holder_of(map->fd, LIFE_BYTES + i))
            continue;
        if (fab_sw(s, FAB_SW_leak) && holds_anything(s, owner)) {
            p->dead = 1;
        } else {
            take_back(s, owner);
            p->pid = 0;
        }
    }
}
