/* SPDX-License-Identifier: MIT */
/*
 * The PMI-1 client: against a server of this test's own that also misbehaves,
 * without one, and in the environments that other launchers leave behind.
 */
#include "net/net.h"

#include <errno.h>
#include <netinet/in.h>

#include "unit/pmi_server.h"

static struct tb_config config;

static struct pmi_server *new_server(int size, void (*child)(int rank))
{
    struct pmi_server *s = calloc(1, sizeof(*s));

    CHECK(s);
    s->size = size;
    s->child = child;
    return s;
}

/* ------------------------------------------------------------- well behaved */

#define LONGEST 3000

static void exchange(int rank)
{
    static unsigned char value[LONGEST];
    static const size_t lengths[] = {0, 1, 2, 29, 30, 31, 32, 500, LONGEST};
    struct tb_boot *boot;
    size_t bytes;
    char key[32];

    CHECK_EQ(tb_boot_open(&boot, &config), TB_OK);
    CHECK_EQ(tb_boot_rank(boot), rank);
    CHECK_EQ(tb_boot_size(boot), 3);
    CHECK_EQ(tb_boot_appnum(boot), 0);
    CHECK_EQ(tb_boot_universe(boot), 3);
    CHECK(!getenv("PMI_FD") && !getenv("PMI_RANK") && !getenv("PMI_SIZE"));
    for (size_t k = 0; k < TB_COUNT_OF(lengths); k++) {
        for (size_t i = 0; i < lengths[k]; i++)
            value[i] = (unsigned char)(i * 13 + (size_t)rank);
        snprintf(key, sizeof(key), "v%zu-%d", k, rank);
        CHECK_EQ(tb_boot_put(boot, key, value, lengths[k]), TB_OK);
    }
    CHECK_EQ(tb_boot_fence(boot), TB_OK);
    for (size_t k = 0; k < TB_COUNT_OF(lengths); k++) {
        int from = (rank + 1) % 3;
        snprintf(key, sizeof(key), "v%zu-%d", k, from);
        CHECK_EQ(tb_boot_get(boot, key, value, sizeof(value), &bytes), TB_OK);
        CHECK_EQ(bytes, lengths[k]);
        for (size_t i = 0; i < bytes; i++)
            CHECK_EQ(value[i], (unsigned char)(i * 13 + (size_t)from));
    }
    CHECK_EQ(tb_boot_get(boot, "nothing", value, 8, &bytes), TB_ERR_NAME);
    CHECK_EQ(tb_boot_get(boot, key, value, 8, &bytes), TB_ERR_PROTOCOL);
    CHECK(tb_boot_alive(boot));
    tb_boot_close(boot);
}

static void test_exchange(int value_max)
{
    struct pmi_server *s = new_server(3, exchange);

    s->value_max = value_max;
    pmi_run(s);
    pmi_all_ok(s);
    free(s);
}

/* A second start in the same environment, as by a child process, stands
 * alone and does not take part in anything. */
static void start_twice(int rank)
{
    struct tb_boot *boot, *second;

    setenv("OMPI_COMM_WORLD_SIZE", "2", 1); /* tbmpirun sets it as well */
    CHECK_EQ(tb_boot_open(&boot, &config), TB_OK);
    CHECK_EQ(tb_boot_rank(boot), rank);
    CHECK_EQ(tb_boot_open(&second, &config), TB_OK);
    CHECK_EQ(tb_boot_size(second), 1);
    tb_boot_close(second);
    CHECK_EQ(tb_boot_fence(boot), TB_OK);
    tb_boot_close(boot);
}

static void test_single_use(void)
{
    struct pmi_server *s = new_server(2, start_twice);

    pmi_run(s);
    pmi_all_ok(s);
    free(s);
}

static void give_up(int rank)
{
    struct tb_boot *boot;

    CHECK_EQ(tb_boot_open(&boot, &config), TB_OK);
    if (rank == 1)
        tb_boot_abort(boot, 7, "because");
    _exit(3);
}

static void test_abort(void)
{
    struct pmi_server *s = new_server(2, give_up);

    pmi_run(s);
    CHECK_EQ(s->aborted, 7);
    free(s);
}

/* ------------------------------------------------------------- misbehaviour */

static void expect_refusal(int rank)
{
    struct tb_boot *boot;
    tb_err err = tb_boot_open(&boot, &config);

    (void)rank;
    CHECK(err);
    CHECK(strlen(tb_fail_note()) > 10);
}

static void test_bad_hello(const char *hello)
{
    struct pmi_server *s = new_server(1, expect_refusal);

    s->hello = hello;
    pmi_run(s);
    CHECK_EQ(s->status[0], 0);
    free(s);
}

static void lose_launcher(int rank)
{
    struct tb_boot *boot;
    tb_err err = tb_boot_open(&boot, &config);

    (void)rank;
    if (err) {
        CHECK_EQ(err, TB_ERR_LOST);
        return;
    }
    err = tb_boot_put(boot, "k", "v", 1);
    if (!err)
        err = tb_boot_fence(boot);
    CHECK_EQ(err, TB_ERR_LOST);
    CHECK(!tb_boot_alive(boot));
    tb_boot_abort(boot, 1, "nobody listens");
    tb_boot_close(boot);
}

/* The launcher goes away at every line of the start. */
static void test_launcher_dies(void)
{
    for (int lines = 1; lines < 8; lines++) {
        struct pmi_server *s = new_server(2, lose_launcher);
        s->die_at = lines;
        pmi_run(s);
        CHECK_EQ(s->status[0], 0);
        CHECK_EQ(s->status[1], 0);
        free(s);
    }
}

static void out_of_memory(int rank)
{
    struct tb_boot *boot = NULL;

    (void)rank;
    tb_mem_fail_after(0);
    CHECK_EQ(tb_boot_open(&boot, &config), TB_ERR_NO_MEM);
    tb_mem_fail_after(-1);
    CHECK(!boot && getenv("PMI_FD"));
    CHECK_EQ(tb_boot_open(&boot, &config), TB_OK);
    tb_boot_close(boot);
}

static void test_out_of_memory(void)
{
    struct pmi_server *s = new_server(1, out_of_memory);

    pmi_run(s);
    pmi_all_ok(s);
    free(s);
}

/* -------------------------------------------------------------- environment */

static void clean_environment(void)
{
    static const char *const names[] = {
        "PMI_FD",          "PMI_PORT",           "PMI_ID",
        "PMI_RANK",        "PMI_SIZE",           "TBMPI_INSIDE",
        "PMIX_RANK",       "MPI_LOCALNRANKS",    "OMPI_COMM_WORLD_SIZE",
        "SLURM_PROCID",    "SLURM_NTASKS",       "SLURM_STEP_NUM_TASKS",
        "MPI_LOCALRANKID", "MV2_COMM_WORLD_SIZE"};

    for (size_t i = 0; i < TB_COUNT_OF(names); i++)
        unsetenv(names[i]);
}

/* Sets name=value pairs, starts, expects success as a singleton or an error
 * whose note has `word` in it. */
static void start_in(const char *const *pairs, const char *word)
{
    struct tb_boot *boot;
    tb_err err;

    clean_environment();
    for (; *pairs; pairs += 2)
        setenv(pairs[0], pairs[1], 1);
    err = tb_boot_open(&boot, &config);
    if (!word) {
        CHECK_EQ(err, TB_OK);
        CHECK_EQ(tb_boot_size(boot), 1);
        CHECK_EQ(tb_boot_rank(boot), 0);
        CHECK_EQ(tb_boot_appnum(boot), -1);
        CHECK(tb_boot_alive(boot));
        CHECK_EQ(tb_boot_fence(boot), TB_OK);
        tb_boot_close(boot);
    } else {
        CHECK(err);
        if (!strstr(tb_fail_note(), word)) {
            fprintf(stderr, "no \"%s\" in: %s\n", word, tb_fail_note());
            exit(1);
        }
    }
    clean_environment();
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_environments(void)
{
    start_in(ENV("HOME", "/"), NULL);
    /* Others' jobs of one, and shells within an allocation. */
    start_in(ENV("OMPI_COMM_WORLD_SIZE", "1"), NULL);
    start_in(ENV("SLURM_NTASKS", "8", "SLURM_JOB_ID", "5"), NULL);
    start_in(ENV("SLURM_NTASKS", "8", "SLURM_PROCID", "0",
                 "SLURM_STEP_NUM_TASKS", "1"),
             NULL);
    start_in(ENV("PMIX_RANK", "0"), NULL);
    /* Others' jobs of many. */
    start_in(ENV("OMPI_COMM_WORLD_SIZE", "4"), "Open MPI");
    start_in(ENV("SLURM_PROCID", "0", "SLURM_STEP_NUM_TASKS", "4"), "srun");
    start_in(ENV("PMIX_RANK", "2"), "PMIx");
    start_in(ENV("PMI_SIZE", "2", "PMI_RANK", "0"), "PMI_SIZE");
    /* Below a rank those speak of the rank's launcher. */
    start_in(ENV("OMPI_COMM_WORLD_SIZE", "4", "TBMPI_INSIDE", "1"), NULL);
    /* Descriptors that a wrapper has closed, and nonsense. */
    start_in(ENV("PMI_FD", "777", "PMI_RANK", "0", "PMI_SIZE", "2"),
             "close_fds");
    start_in(ENV("PMI_FD", "0", "PMI_RANK", "2", "PMI_SIZE", "2"), "PMI_RANK");
    start_in(ENV("PMI_FD", "0", "PMI_RANK", "0", "PMI_SIZE", "99999999"),
             "PMI_SIZE");
    start_in(ENV("PMI_PORT", "nonsense"), "host:port");
    start_in(ENV("PMI_PORT", "127.0.0.1:1", "PMI_ID", "0"), "127.0.0.1:1");
}

/* --------------------------------------------------------------------- port */

static void use_port(int listener, const char *greeting)
{
    int fd = accept(listener, NULL, NULL);
    static const char *const answers[] = {
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=1024\n",
        "cmd=my_kvsname kvsname=k\n",
        "cmd=appnum appnum=2\n",
        "cmd=universe_size size=9\n",
        "cmd=finalize_ack\n",
    };
    char text[512];

    CHECK(fd >= 0);
    CHECK(recv(fd, text, sizeof(text) - 1, 0) > 0);
    CHECK(!strncmp(text, "cmd=initack pmiid=5\n", 20));
    pmi_say(fd, greeting);
    for (size_t i = 0; i < TB_COUNT_OF(answers); i++) {
        if (recv(fd, text, sizeof(text), 0) <= 0)
            break;
        pmi_say(fd, answers[i]);
    }
    close(fd);
}

static void test_port(const char *greeting, const char *refusal)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int listener = socket(AF_INET, SOCK_STREAM, 0), status;
    struct tb_boot *boot;
    char where[64];
    pid_t child;
    tb_err err;

    CHECK(!bind(listener, (struct sockaddr *)&a, sizeof(a)));
    CHECK(!listen(listener, 1));
    CHECK(!getsockname(listener, (struct sockaddr *)&a, &n));
    child = fork();
    if (child == 0) {
        use_port(listener, greeting);
        _exit(0);
    }
    clean_environment();
    snprintf(where, sizeof(where), "127.0.0.1:%d", ntohs(a.sin_port));
    setenv("PMI_PORT", where, 1);
    setenv("PMI_ID", "5", 1);
    err = tb_boot_open(&boot, &config);
    if (refusal) {
        CHECK(err && strstr(tb_fail_note(), refusal));
    } else {
        CHECK_EQ(err, TB_OK);
        CHECK_EQ(tb_boot_rank(boot), 2);
        CHECK_EQ(tb_boot_size(boot), 4);
        CHECK_EQ(tb_boot_appnum(boot), 2);
        CHECK_EQ(tb_boot_universe(boot), 9);
        CHECK(!getenv("PMI_PORT") && !getenv("PMI_ID"));
        tb_boot_close(boot);
    }
    close(listener);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    clean_environment();
}

int main(void)
{
    clean_environment();
    CHECK_EQ(tb_config_load(&config), TB_OK);
    test_exchange(0);
    test_exchange(64);
    test_exchange(1 << 20);
    test_single_use();
    test_abort();
    test_bad_hello("cmd=response_to_init pmi_version=9 rc=-1\n");
    test_bad_hello("cmd=what\n");
    test_bad_hello("HTTP/1.1 400 Bad Request\n\n");
    test_launcher_dies();
    test_out_of_memory();
    test_environments();
    test_port("cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=2\n"
              "cmd=set debug=0\n",
              NULL);
    test_port("cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=4\n"
              "cmd=set debug=0\n",
              "rank 4 of 4");
    return 0;
}
