/* SPDX-License-Identifier: MIT */
/*
 * net: starting in each of its ways, everybody to everybody, waiting, and
 * what is said when the start cannot work. With the argument "rank" it is a
 * rank itself, for a launcher that serves PMI-1:
 *
 *     mpiexec -n 4 unit_net rank
 */
#include "net/net.h"

#include <dirent.h>

#include "unit/pmi_server.h"

#define ROUNDS 200

struct packet {
    struct tb_hop hop;
    uint32_t number;
    char body[200];
};

struct rank {
    struct tb_config config;
    struct tb_boot *boot;
    struct tb_net *net;
    int got, lost;
    uint32_t next[256];
};

static void on_packet(void *ctx, enum tb_channel ch, const void *data,
                      size_t bytes)
{
    struct rank *r = ctx;
    const struct packet *p = data;

    CHECK_EQ(ch, TB_CONTROL);
    CHECK_EQ(p->hop.dest, tb_net_self(r->net));
    CHECK_EQ(p->number, r->next[p->hop.origin]);
    CHECK(bytes >= offsetof(struct packet, body) && bytes <= sizeof(*p));
    r->next[p->hop.origin]++;
    r->got++;
}

static void on_lost(void *ctx, int endpoint, tb_err why)
{
    struct rank *r = ctx;

    (void)endpoint, (void)why;
    r->lost++;
}

static tb_err rank_open(struct rank *r)
{
    struct tb_net_args args = {.config = &r->config,
                               .up = {r, on_packet, on_lost}};

    memset(r, 0, sizeof(*r));
    TB_TRY(tb_config_load(&r->config));
    TB_TRY(tb_boot_open(&r->boot, &r->config));
    args.boot = r->boot;
    return tb_net_open(&r->net, &args);
}

static void rank_init(struct rank *r)
{
    tb_err err = rank_open(r);

    if (err) {
        fprintf(stderr, "%s: %s\n", tb_err_text(err), tb_fail_note());
        exit(1);
    }
}

static void rank_fini(struct rank *r)
{
    CHECK_EQ(tb_boot_fence(r->boot), TB_OK);
    tb_net_close(r->net);
    tb_boot_close(r->boot);
}

static void send_to(struct rank *r, int dest, uint32_t number)
{
    size_t bytes = offsetof(struct packet, body) + number % 200;
    const struct tb_route *way = tb_net_route(r->net, dest);
    struct tb_slot slot;
    struct packet *p;
    tb_err err;

    while ((err = tb_route_reserve(way, TB_CONTROL, bytes, &slot)) ==
           TB_ERR_AGAIN)
        tb_net_poll(r->net);
    CHECK_EQ(err, TB_OK);
    p = slot.data;
    p->hop.dest = (uint16_t)dest;
    p->hop.origin = (uint16_t)tb_net_self(r->net);
    p->number = number;
    tb_route_commit(way, &slot, bytes);
}

/* Polls and idles until `n` packets have come. */
static void await(struct rank *r, int n)
{
    unsigned idle = 0;

    while (r->got < n) {
        if (tb_net_poll(r->net) > 0)
            idle = 0;
        else
            CHECK_EQ(tb_net_idle(r->net, ++idle, NULL, NULL), TB_OK);
    }
}

static void use_commons(struct rank *r)
{
    int n, place = 0;
    const int *local = tb_net_local(r->net, &n);
    size_t bytes;
    char *commons = tb_net_commons(r->net, &bytes);

    CHECK(commons && bytes >= 1024);
    while (local[place] != tb_net_self(r->net))
        place++;
    CHECK_EQ(commons[(size_t)place * bytes + bytes - 1], 0);
    commons[(size_t)place * bytes + bytes - 1] = (char)(place + 1);
    CHECK_EQ(tb_boot_fence(r->boot), TB_OK);
    for (int i = 0; i < n; i++)
        CHECK_EQ(commons[(size_t)i * bytes + bytes - 1], i + 1);
}

static void exchange(int rank)
{
    struct rank r;
    int n;

    (void)rank;
    rank_init(&r);
    n = tb_net_endpoints(r.net);
    CHECK_EQ(tb_net_self(r.net), tb_boot_rank(r.boot));
    CHECK_EQ(tb_net_node(r.net, n - 1), 0);
    CHECK_EQ(tb_net_note(r.net)->pid, getpid());
    CHECK_EQ(tb_net_note(r.net)->state, TB_STATE_RUNNING);
    for (uint32_t k = 0; k < ROUNDS; k++) {
        for (int i = 0; i < n; i++)
            send_to(&r, i, k);
    }
    await(&r, n * ROUNDS);
    CHECK_EQ(r.got, n * ROUNDS);
    CHECK_EQ(r.lost, 0);
    if (n > 1)
        use_commons(&r);
    rank_fini(&r);
}

/* ----------------------------------------------------------------- starting */

static int segment_fd = -1;

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

/* As tbmpirun makes it. */
static void make_segment(int ranks, uint64_t magic)
{
    struct tb_segment_head head = {
        .magic = magic, .ranks = (uint32_t)ranks, .maker = (uint32_t)getpid()};
    char name[32];

    snprintf(name, sizeof(name), "/tbmpi-test-%d", (int)getpid());
    segment_fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(segment_fd >= 0);
    shm_unlink(name);
    CHECK(!ftruncate(segment_fd, (off_t)ranks * TB_SEGMENT_PER_RANK));
    CHECK(pwrite(segment_fd, &head, sizeof(head), 0) == sizeof(head));
}

static void name_segment(int rank)
{
    (void)rank;
    set_number("TBMPI_SHM_FD", segment_fd);
}

/* No name that one of these processes made may be left where names of shared
 * memory can be seen. */
static void check_no_names(const struct pmi_server *s)
{
    DIR *dir = opendir("/dev/shm");
    struct dirent *entry;
    int pid;

    while (dir && (entry = readdir(dir))) {
        if (sscanf(entry->d_name, "tbmpi-%d-", &pid) != 1)
            continue;
        for (int i = 0; i < s->size; i++)
            CHECK(s->pids[i] != pid);
    }
    if (dir)
        closedir(dir);
}

static void run(int size, void (*child)(int), void (*prepare)(int))
{
    struct pmi_server *s = calloc(1, sizeof(*s));

    s->size = size;
    s->child = child;
    s->prepare = prepare;
    pmi_run(s);
    for (int i = 0; i < size; i++)
        CHECK_EQ(s->status[i], 0);
    check_no_names(s);
    free(s);
}

static void test_descriptor(void)
{
    make_segment(4, TB_SEGMENT_MAGIC);
    run(4, exchange, name_segment);
    close(segment_fd);
}

/* ------------------------------------------------------- closed descriptors */

#if defined(__linux__)

/* A wrapper closed it, but the launcher still has it. */
static void name_and_close(int rank)
{
    name_segment(rank);
    close(segment_fd);
}

/* A rank's child that got a copy of the rank's first environment, as Python
 * hands it on, and none of its descriptors. */
static void start_child_copy(int rank)
{
    struct rank r;
    pid_t child;
    int status;

    rank_init(&r);
    CHECK_EQ(tb_boot_fence(r.boot), TB_OK);
    child = fork();
    if (child == 0) {
        struct rank copy;
        unsetenv("TBMPI_INSIDE");
        set_number("PMI_FD", 777);
        set_number("PMI_RANK", rank);
        set_number("PMI_SIZE", 2);
        name_segment(rank);
        rank_init(&copy);
        CHECK_EQ(tb_net_endpoints(copy.net), 1);
        CHECK(!tb_boot_launched(copy.boot));
        tb_net_close(copy.net);
        tb_boot_close(copy.boot);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    CHECK_EQ(tb_net_note(r.net)->pid, getpid());
    rank_fini(&r);
}

static void test_closed_descriptors(void)
{
    make_segment(4, TB_SEGMENT_MAGIC);
    run(4, exchange, name_and_close);
    close(segment_fd);
    make_segment(2, TB_SEGMENT_MAGIC);
    run(2, start_child_copy, name_segment);
    close(segment_fd);
}

#else

static void test_closed_descriptors(void)
{
    printf("not tried: descriptors of ancestors, which only Linux shows\n");
}

#endif

/* ----------------------------------------------------------------- refusals */

static const char *expected;

static void expect_refusal(int rank)
{
    struct rank r;
    tb_err err = rank_open(&r);

    (void)rank;
    CHECK(err);
    if (!strstr(tb_fail_note(), expected)) {
        fprintf(stderr, "no \"%s\" in: %s\n", expected, tb_fail_note());
        exit(1);
    }
    tb_boot_close(r.boot);
}

static void test_bad_segments(void)
{
    make_segment(2, TB_SEGMENT_MAGIC + 1);
    expected = "this version";
    run(1, expect_refusal, name_segment);
    close(segment_fd);
    make_segment(3, TB_SEGMENT_MAGIC);
    expected = "3 ranks";
    run(2, expect_refusal, name_segment);
    close(segment_fd);
    segment_fd = 777;
    expected = "close_fds";
    run(1, expect_refusal, name_segment);
    segment_fd = open("/dev/null", O_RDWR);
    expected = "TBMPI_SHM_FD";
    run(1, expect_refusal, name_segment);
    close(segment_fd);
}

static void differ(int rank)
{
    name_segment(rank);
    if (rank == 1)
        setenv("TBMPI_RING", "8k", 1);
}

/* Which of the two comes first is chance. */
static void try_to_agree(int rank)
{
    struct rank r;
    tb_err err = rank_open(&r);

    (void)rank;
    CHECK(!err || strstr(tb_fail_note(), "TBMPI_RING"));
    CHECK_EQ(tb_boot_put(r.boot, rank ? "b" : "a", &err, sizeof(err)), TB_OK);
    CHECK_EQ(tb_boot_fence(r.boot), TB_OK);
    if (rank == 0) {
        tb_err other = 0;
        size_t bytes;
        CHECK_EQ(tb_boot_get(r.boot, "b", &other, sizeof(other), &bytes),
                 TB_OK);
        CHECK(!err != !other);
    }
    tb_net_close(r.net);
    tb_boot_close(r.boot);
}

static void test_rings_differ(void)
{
    make_segment(2, TB_SEGMENT_MAGIC);
    run(2, try_to_agree, differ);
    close(segment_fd);
}

/* Rank 1 pretends to be elsewhere. */
static void elsewhere(int rank)
{
    struct tb_config config;
    struct tb_boot *boot;
    char card[72] = "\1\2\3\4\5\6\7\1otherhost";

    if (rank == 0) {
        expected = "otherhost";
        expect_refusal(rank);
        return;
    }
    CHECK_EQ(tb_config_load(&config), TB_OK);
    CHECK_EQ(tb_boot_open(&boot, &config), TB_OK);
    CHECK_EQ(tb_boot_put(boot, "card-1", card, sizeof(card)), TB_OK);
    CHECK_EQ(tb_boot_fence(boot), TB_OK);
    tb_boot_close(boot);
}

/* Every allocation of the start fails once; nothing is left behind and a
 * second attempt works. */
static void sweep(int rank)
{
    struct rank r = {0};
    struct tb_net_args args = {.config = &r.config,
                               .up = {&r, on_packet, on_lost}};
    tb_err err = TB_ERR_NO_MEM;

    (void)rank;
    CHECK_EQ(tb_config_load(&r.config), TB_OK);
    CHECK_EQ(tb_boot_open(&r.boot, &r.config), TB_OK);
    args.boot = r.boot;
    for (long n = 0; err; n++) {
        CHECK(n < 100);
        r.config.shm_fd = dup(segment_fd); /* open closes it */
        tb_mem_fail_after(n);
        err = tb_net_open(&r.net, &args);
        tb_mem_fail_after(-1);
        CHECK(err == TB_OK || err == TB_ERR_NO_MEM);
        CHECK(!err == !!r.net);
    }
    tb_net_close(r.net);
    tb_boot_close(r.boot);
}

static void test_out_of_memory(void)
{
    make_segment(4, TB_SEGMENT_MAGIC);
    run(4, sweep, NULL);
    close(segment_fd);
}

/* ------------------------------------------------------------------ waiting */

static bool always(void *arg)
{
    ++*(int *)arg;
    return true;
}

/* Sleeps far longer than anybody spins; a ring ends it. */
static void doze(int rank)
{
    struct rank r;
    uint64_t start;
    int asked = 0;

    setenv("TBMPI_CHECK", "20", 1);
    rank_init(&r);
    CHECK_EQ(tb_boot_fence(r.boot), TB_OK);
    if (rank == 0) {
        start = tb_now();
        await(&r, 1);
        CHECK(tb_now() - start < 10000000000u);
        for (unsigned idle = 1; !asked; idle++)
            CHECK_EQ(tb_net_idle(r.net, idle, always, &asked), TB_OK);
    } else {
        usleep(300000);
        send_to(&r, 0, 0);
    }
    CHECK_EQ(tb_boot_fence(r.boot), TB_OK);
    start = tb_now();
    if (rank == 1)
        tb_net_wake(r.net);
    else
        tb_net_ring(r.net, 1);
    rank_fini(&r);
}

/* Waits for a packet that never comes, until the launcher has gone. */
static void wait_for_end(int rank)
{
    struct rank r;
    unsigned idle = 0;
    uint64_t start;
    tb_err err;

    (void)rank;
    rank_init(&r);
    if (tb_boot_fence(r.boot)) /* the server goes away here */
        idle = 0;
    start = tb_now();
    do {
        tb_net_poll(r.net);
        err = tb_net_idle(r.net, ++idle, NULL, NULL);
    } while (!err);
    CHECK_EQ(err, TB_ERR_LOST);
    CHECK(tb_now() - start < 2000000000u);
    tb_net_close(r.net);
    tb_boot_close(r.boot);
}

static void test_launcher_gone(void)
{
    struct pmi_server *s = calloc(1, sizeof(*s));

    make_segment(2, TB_SEGMENT_MAGIC);
    s->size = 2;
    s->child = wait_for_end;
    s->prepare = name_segment;
    s->die_at = 12; /* five lines each to start, one for the fence */
    pmi_run(s);
    CHECK_EQ(s->status[0], 0);
    CHECK_EQ(s->status[1], 0);
    free(s);
    close(segment_fd);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "rank")) {
        exchange(0);
        return 0;
    }
    exchange(0); /* alone */
    unsetenv("TBMPI_INSIDE");
    test_descriptor();
    run(4, exchange, NULL);
    run(1, exchange, NULL);
    test_closed_descriptors();
    test_bad_segments();
    test_rings_differ();
    run(2, elsewhere, NULL);
    test_out_of_memory();
    run(2, doze, NULL);
    test_launcher_gone();
    return 0;
}
