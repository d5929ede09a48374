/* SPDX-License-Identifier: MIT */
/* base: errors, log, memory, lists, machine, processes, doorbell. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "unit/check.h"

static void test_errors(void)
{
    CHECK(!strcmp(tb_err_text(TB_OK), "no error"));
    for (tb_err e = 1; e < TB_ERR_LIMIT; e++)
        CHECK(strlen(tb_err_text(e)) > 3);
    CHECK(strlen(tb_err_text(-1)) > 3);
    CHECK(strlen(tb_err_text(tb_err_foreign(77))) > 3);
    CHECK_EQ(tb_err_foreign(0), TB_OK);
    CHECK_EQ(tb_fail(TB_ERR_TAG, "tag %d", -5), TB_ERR_TAG);
    CHECK(!strcmp(tb_fail_note(), "tag -5"));
    errno = ENOENT;
    CHECK_EQ(tb_fail_errno("file %s", "x"), TB_ERR_SYSTEM);
    CHECK(!strncmp(tb_fail_note(), "file x: ", 8));
    CHECK(strlen(tb_fail_note()) > 10);
    tb_fail_clear();
    CHECK(!*tb_fail_note());
}

static void *other_thread(void *arg)
{
    CHECK(!*tb_fail_note());
    (void)tb_fail(TB_ERR_TAG, "theirs");
    return arg;
}

static void test_note_per_thread(void)
{
    pthread_t t;

    (void)tb_fail(TB_ERR_TAG, "ours");
    CHECK(!pthread_create(&t, NULL, other_thread, NULL));
    pthread_join(t, NULL);
    CHECK(!strcmp(tb_fail_note(), "ours"));
}

/* A long line is cut, not lost, and stays one line. */
static void test_log(void)
{
    char text[4096], longer[2000];
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t n;

    CHECK(!pipe(ends));
    dup2(ends[1], STDERR_FILENO);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    tb_log_name("tbmpi 3@here");
    tb_log_limit(TB_LOG_WARN);
    tb_log(TB_LOG_INFO, "not shown");
    tb_log(TB_LOG_WARN, "peer %d", 4);
    tb_log(TB_LOG_ERROR, "%s", longer);
    dup2(saved, STDERR_FILENO);
    n = read(ends[0], text, sizeof(text) - 1);
    CHECK(n > 1000);
    text[n] = 0;
    CHECK(!strncmp(text, "tbmpi 3@here: warn: peer 4\ntbmpi 3@here: error: xxx",
                   50));
    CHECK_EQ(text[n - 1], '\n');
    close(ends[0]);
    close(ends[1]);
    close(saved);
}

static void test_pool(size_t bytes)
{
    enum { N = 3000 };
    static void *objects[N];
    struct tb_pool pool;

    tb_pool_init(&pool, bytes);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            objects[i] = tb_pool_get(&pool);
            CHECK(objects[i] && (uintptr_t)objects[i] % 16 == 0);
            memset(objects[i], i & 0xff, bytes);
        }
        CHECK_EQ(pool.live, N);
        for (int i = 0; i < N; i++) {
            const unsigned char *p = objects[i];
            for (size_t k = 0; k < bytes; k++)
                CHECK_EQ(p[k], i & 0xff);
            tb_pool_put(&pool, objects[i]);
        }
        CHECK_EQ(pool.live, 0);
    }
    tb_pool_fini(&pool);
    tb_mem_fail_after(0);
    CHECK(!tb_pool_get(&pool));
    tb_mem_fail_after(-1);
    CHECK_EQ(pool.live, 0);
    CHECK(tb_pool_get(&pool));
    tb_pool_fini(&pool);
}

static void test_memory(void)
{
    char *p, *q;

    p = tb_alloc(0);
    CHECK(p);
    tb_free(p);
    p = tb_alloc_aligned(TB_PAGE, 100);
    CHECK(p && (uintptr_t)p % TB_PAGE == 0);
    tb_free(p);
    tb_free(NULL);
    tb_mem_fail_after(1);
    p = tb_strdup("kept");
    q = tb_strdup("lost");
    CHECK(p && !q && !strcmp(p, "kept"));
    q = tb_calloc(3, 5); /* only the one fails */
    CHECK(q && !q[14]);
    tb_free(p);
    tb_free(q);
    CHECK_EQ(tb_round_up(0, 64), 0);
    CHECK_EQ(tb_round_up(1, 64), 64);
    CHECK_EQ(tb_round_up(64, 64), 64);
}

static void test_list(void)
{
    struct tb_list list, a, b;

    tb_list_init(&list);
    CHECK(tb_list_empty(&list));
    tb_list_append(&list, &a);
    tb_list_append(&list, &b);
    CHECK(list.next == &a && list.prev == &b && a.next == &b);
    tb_list_remove(&a);
    CHECK(list.next == &b && a.next == &a);
    tb_list_remove(&a); /* twice does no harm */
    tb_list_remove(&b);
    CHECK(tb_list_empty(&list));
}

static void test_machine(void)
{
    char name[256], cut[4];
    uint64_t before = tb_now(), id;

    CHECK(tb_cpus() >= 1 && tb_cpus() <= 8192);
    tb_host_name(name, sizeof(name));
    CHECK(strlen(name) > 0);
    tb_host_name(cut, sizeof(cut));
    CHECK(strlen(cut) < sizeof(cut));
    CHECK_EQ(tb_host_id(), tb_host_id());
    id = tb_host_id();
    setenv("TBMPI_HOST_NAME", "mac7", 1);
    tb_host_name(name, sizeof(name));
    CHECK(!strcmp(name, "mac7"));
    CHECK(tb_host_id() != id);
    unsetenv("TBMPI_HOST_NAME");
    CHECK_EQ(tb_host_id(), id);
    CHECK(tb_random() != tb_random());
    CHECK(tb_now() >= before);
    CHECK(tb_clock_step() >= 1 && tb_clock_step() <= 100000000);
}

static void test_processes(void)
{
    pid_t child = fork();

    if (child == 0) {
        uint32_t parent = tb_process_parent((uint32_t)getpid());
        _exit(parent == (uint32_t)getppid() ? 0 : 1);
    }
    CHECK(!tb_process_gone((uint32_t)child));
    CHECK(!tb_process_gone(0) && !tb_process_gone((uint32_t)getpid()));
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(tb_process_gone((uint32_t)child));
    CHECK_EQ(tb_process_parent((uint32_t)child), 0);
}

static void test_shared_memory(void)
{
    enum { N = 4 * TB_PAGE };
    struct tb_share share, other;
    void *a = NULL, *b = NULL;
    pid_t child;
    int status;

    CHECK_EQ(tb_share_make(&share, N), TB_OK);
    CHECK(strlen(share.name) <= 31);
    CHECK_EQ(tb_share_attach(&share, N, &a), TB_OK);
    CHECK_EQ(tb_share_attach(&share, N, &b), TB_OK);
    ((char *)a)[N - 1] = 7;
    CHECK(((char *)b)[N - 1] == 7 && ((char *)b)[0] == 0 && a != b);
    tb_share_unmap(b, N);
    CHECK_EQ(tb_share_attach(&share, 2 * N, &b), TB_ERR_SYSTEM);
    child = fork();
    if (child == 0) {
        close(share.fd);
        _exit(tb_share_attach(&share, N, &b) || ((char *)b)[N - 1] != 7);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    tb_share_release(&share);
    other = share;
    other.pid = (uint32_t)getppid();
    CHECK_EQ(tb_share_attach(&other, N, &b), TB_ERR_SYSTEM);
#if defined(__linux__)
    /* More than any machine has: an error now, and no name left. */
    CHECK_EQ(tb_share_make(&other, (size_t)1 << 50), TB_ERR_SYSTEM);
#endif
#if defined(__linux__) || defined(__APPLE__)
    /* A child of fork does not have it. */
    child = fork();
    if (child == 0) {
        freopen("/dev/null", "w", stderr);
        _exit(((volatile char *)a)[N - 1]);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 7);
#endif
    tb_share_unmap(a, N);
}

/* ----------------------------------------------------------------- doorbell */

static struct tb_bell bell;
static _Atomic int work;

static void *ringer(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        while (atomic_load(&work))
            tb_yield();
        atomic_store(&work, 1);
        tb_bell_ring(&bell);
    }
    return arg;
}

/* A lost wake-up shows as a sleep that runs out. */
static void test_bell(void)
{
    pthread_t t;
    uint64_t start;

    start = tb_now();
    tb_bell_sleep(&bell, tb_bell_arm(&bell), 5000000);
    tb_bell_disarm(&bell);
    CHECK(tb_now() - start >= 1000000); /* nobody rang */
    tb_bell_sleep(&bell, tb_bell_arm(&bell), 0);
    CHECK(!pthread_create(&t, NULL, ringer, NULL));
    for (int i = 0; i < 2000; i++) {
        while (!atomic_load(&work)) {
            uint32_t ticket = tb_bell_arm(&bell);
            start = tb_now();
            if (!atomic_load(&work))
                tb_bell_sleep(&bell, ticket, 5000000000u);
            tb_bell_disarm(&bell);
            CHECK(tb_now() - start < 5000000000u);
        }
        atomic_store(&work, 0);
    }
    pthread_join(t, NULL);
}

int main(void)
{
    test_errors();
    test_note_per_thread();
    test_log();
    test_pool(1);
    test_pool(24);
    test_pool(5000);
    test_memory();
    test_list();
    test_machine();
    test_processes();
    test_shared_memory();
    test_bell();
    return 0;
}
