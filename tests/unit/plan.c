/* SPDX-License-Identifier: MIT */
/* The plan of a job: what it says, and what is refused. */
#include "net/plan.h"

#include <pthread.h>

#include "unit/check.h"

#define HEAD                                                                \
    "tbmpi-plan 1\njob 0123456789abcdef0123456789abcdef\nsize 3\nnodes 2\n" \
    "self 0\n"
#define NODES "node 0 mac-a 0 2\nnode 1 mac-b 1\n"
#define CABLE \
    "cable 0 0 rdma_en2 ::ffff:169.254.1.1 1 rdma_en3 ::ffff:169.254.1.2\n"
#define SOCKETS "link 1 5\nbell 0 6\nbell 2 7\near 8\n"
#define REST "wire 0 5\nmgmt 1 6\nagent 7\nrelay 8\n"

static struct tb_plan *parse(const char *text)
{
    struct tb_plan *p;
    tb_err err = tb_plan_parse(&p, text, strlen(text));

    if (err) {
        fprintf(stderr, "%s\n", tb_fail_note());
        exit(1);
    }
    return p;
}

static void test_whole(void)
{
    struct tb_plan *p = parse(HEAD "owner router\ncrowd 9\n" NODES CABLE REST);

    CHECK(!strcmp(p->job, "0123456789abcdef0123456789abcdef"));
    CHECK_EQ(p->size, 3);
    CHECK_EQ(p->nodes, 2);
    CHECK_EQ(p->self, 0);
    CHECK(!p->owner_rank);
    CHECK_EQ(p->crowd, 9);
    CHECK(!strcmp(p->node[1].name, "mac-b"));
    CHECK_EQ(p->node[0].n, 2);
    CHECK_EQ(p->node[0].ranks[1], 2);
    CHECK_EQ(p->node_of[1], 1);
    CHECK_EQ(p->cables, 1);
    CHECK_EQ(p->cable[0].node[1], 1);
    CHECK(!strcmp(p->cable[0].device[1], "rdma_en3"));
    CHECK_EQ(p->cable[0].gid[0][15], 1);
    CHECK_EQ(p->cable[0].wire, 5);
    CHECK_EQ(p->node[1].mgmt, 6);
    CHECK_EQ(p->node[0].mgmt, -1);
    CHECK_EQ(p->agent, 7);
    CHECK_EQ(p->relay, 8);
    CHECK_EQ(tb_plan_node_of(p, 2), 0);
    CHECK_EQ(tb_plan_node_of(p, 4), 1);
    CHECK_EQ(tb_plan_owner(p, 1), 4);
    tb_plan_free(p);
}

/* What a rank beside a router reads; the last line may lack its end. */
static void test_short(void)
{
    struct tb_plan *p = parse(HEAD "owner router\n" NODES);

    CHECK_EQ(p->crowd, 3);
    CHECK_EQ(p->agent, -1);
    CHECK_EQ(p->relay, -1);
    tb_plan_free(p);
    p = parse("tbmpi-plan 1\njob 0123456789abcdef0123456789abcdef\nsize 2\n"
              "nodes 2\nself 1\nowner rank\nnode 0 a 0\nnode 1 b 1");
    CHECK_EQ(p->crowd, 1);
    CHECK_EQ(tb_plan_owner(p, 1), 1);
    tb_plan_free(p);
    p = parse(HEAD "owner router\nnode 0 hub\nnode 1 all 0 1 2\n");
    CHECK_EQ(p->node[0].n, 0);
    tb_plan_free(p);
}

/* Nobody owns verbs: sockets to the ranks elsewhere, bells of those here. */
static void test_sockets(void)
{
    struct tb_plan *p = parse(HEAD "owner none\n" NODES SOCKETS);

    CHECK(p->sockets && !p->owner_rank);
    CHECK_EQ(p->crowd, 2);
    CHECK_EQ(p->link[0], -1);
    CHECK_EQ(p->link[1], 5);
    CHECK_EQ(p->bell[0], 6);
    CHECK_EQ(p->bell[1], -1);
    CHECK_EQ(p->bell[2], 7);
    CHECK_EQ(p->ear, 8);
    tb_plan_free(p);
}

/* Each with the line that is to blame and a word of the reason. */
static const struct {
    const char *text;
    int line;
    const char *why;
} bad[] = {
    {"", 1, "ends"},
    {"tbmpi-plan 2\n", 1, "version 2"},
    {"tbmpi-plan one\n", 1, "no number"},
    {"tbmpi-plan 1 1\n", 1, "one word too many"},
    {"tbmpi-plan 1\n\n", 2, "missing"},
    {"tbmpi-plan 1\nsize 3\n", 2, "\"job\""},
    {"tbmpi-plan 1\njob 0123\n", 2, "32"},
    {"tbmpi-plan 1\njob 0123456789abcdef0123456789abcdeg\n", 2, "32"},
    {"tbmpi-plan 1\njob 0123456789abcdef0123456789abcdef0\n", 2, "32"},
    {HEAD "owner nobody\n", 6, "nobody"},
    {HEAD "owner router\ncrowd 0\n", 7, "between"},
    {HEAD "owner router\nnode 1 b 1\n", 7, "node 0 belongs"},
    {HEAD "owner router\nnode 0 a 2 0\n", 7, "not above"},
    {HEAD "owner router\nnode 0 a 0 2\nnode 1 b 2\n", 8, "already"},
    {HEAD "owner router\nnode 0 a 0 3\n", 7, "between 0 and 2"},
    {HEAD "owner router\nnode 0 a 0  2\n", 7, "no number"},
    {HEAD "owner router\nnode 0 a 0 2\n", 8, "describes 1"},
    {HEAD "owner router\nnode 0 a 0\nnode 1 b 1\n", 9, "places 2"},
    {HEAD "owner rank\nnode 0 a 0 2\n", 7, "2 of them"},
    {HEAD "owner router\n" NODES "cable 1 0 x ::ffff:1.2.3.4\n", 9, "cable 0"},
    {HEAD "owner router\n" NODES "cable 0 0 x fe80::1 1 y ::ffff:1.2.3.4\n", 9,
     "fe80::1"},
    {HEAD "owner router\n" NODES "cable 0 0 x ::ffff:1.2.3.4\n", 9, "missing"},
    {HEAD "owner router\n" NODES
          "cable 0 0 x ::ffff:1.2.3.4 0 y ::ffff:1.2.3.5\n",
     9, "itself"},
    {HEAD "owner router\n" NODES CABLE "wire 1 5\n", 10, "between"},
    {HEAD "owner router\n" NODES CABLE "wire 0 5\nwire 0 6\n", 11, "already"},
    {HEAD "owner router\n" NODES CABLE "wire 0 5\n", 11, "0 connections"},
    {HEAD "owner router\n" NODES CABLE "mgmt 0 5\n", 10, "node 0"},
    {HEAD "owner router\n" NODES CABLE REST "agent 8\n", 14, "agent"},
    {HEAD "owner router\n" NODES CABLE REST "relay 9\n", 14, "relay"},
    {HEAD "owner router\n" NODES CABLE REST "cable 1\n", 14, "cable"},
    {HEAD "owner router\nnodes 2\n", 7, "nodes"},
    {HEAD "owner router\n" NODES "link 1 5\n", 9, "owner of verbs"},
    {HEAD "owner none\n" NODES CABLE SOCKETS, 14, "cables"},
    {HEAD "owner none\n" NODES "link 0 5\n", 9, "rank 0"},
    {HEAD "owner none\n" NODES "link 1 5\nlink 1 6\n", 10, "rank 1"},
    {HEAD "owner none\n" NODES "link 3 5\n", 9, "between 0 and 2"},
    {HEAD "owner none\n" NODES "link 1 -1\n", 9, "no number"},
    {HEAD "owner none\n" NODES "link 1 5\nbell 1 6\n", 10, "rank 1"},
    {HEAD "owner none\n" NODES "bell 0 6\nbell 2 7\near 8\n", 12, "0 links"},
    {HEAD "owner none\n" NODES "link 1 5\nbell 0 6\near 8\n", 12, "1 bells"},
    {HEAD "owner none\n" NODES "link 1 5\nbell 0 6\nbell 2 7\n", 12, "no ear"},
};

static void test_bad(void)
{
    for (size_t i = 0; i < TB_COUNT_OF(bad); i++) {
        struct tb_plan *p = NULL;
        char line[16];
        snprintf(line, sizeof(line), "line %d ", bad[i].line);
        CHECK_EQ(tb_plan_parse(&p, bad[i].text, strlen(bad[i].text)),
                 TB_ERR_PROTOCOL);
        CHECK(!p);
        if (!strstr(tb_fail_note(), line) ||
            !strstr(tb_fail_note(), bad[i].why)) {
            fprintf(stderr, "%zu: no \"%s\", \"%s\" in: %s\n", i, line,
                    bad[i].why, tb_fail_note());
            exit(1);
        }
    }
}

/* Whatever is done to a good plan, it is read or refused. */
static void test_mangled(void)
{
    static const char good[] = HEAD "owner router\ncrowd 9\n" NODES CABLE REST;
    char text[sizeof(good)];
    uint32_t state = 1;

    for (int i = 0; i < 20000; i++) {
        struct tb_plan *p;
        size_t n = sizeof(good) - 1;
        memcpy(text, good, sizeof(good));
        for (int k = 0; k < 3; k++) {
            state = state * 1664525 + 1013904223;
            text[state % n] = (char)(state >> 24);
        }
        if (state >> 8 & 1)
            n = state % n;
        if (!tb_plan_parse(&p, text, n))
            tb_plan_free(p);
    }
}

static void *write_plan(void *arg)
{
    static const char text[] = HEAD "owner router\n" NODES CABLE;
    int fd = *(int *)arg;

    for (size_t i = 0; i < sizeof(text) - 1; i += 7) {
        size_t n = TB_MIN(7, sizeof(text) - 1 - i);
        CHECK(write(fd, text + i, n) == (ssize_t)n);
    }
    close(fd);
    return NULL;
}

/* A file is read from its start by everybody; a pipe as it comes. */
static void test_descriptors(void)
{
    char name[] = "/tmp/tbmpi-plan-XXXXXX";
    int fd = mkstemp(name), fds[2];
    struct tb_plan *p;
    pthread_t thread;
    int copy;

    CHECK(fd >= 0);
    unlink(name);
    copy = dup(fd);
    write_plan(&copy);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(tb_plan_read(&p, fd), TB_OK);
        CHECK_EQ(p->cables, 1);
        tb_plan_free(p);
    }
    close(fd);
    CHECK(!pipe(fds));
    CHECK(!pthread_create(&thread, NULL, write_plan, &fds[1]));
    CHECK_EQ(tb_plan_read(&p, fds[0]), TB_OK);
    pthread_join(thread, NULL);
    tb_plan_free(p);
    close(fds[0]);
    CHECK_EQ(tb_plan_read(&p, 900), TB_ERR_SYSTEM);
    CHECK(strstr(tb_fail_note(), "TBMPI_PLAN_FD"));
}

static void test_out_of_memory(void)
{
    static const char text[] = HEAD "owner router\n" NODES CABLE REST;
    tb_err err = TB_ERR_NO_MEM;

    for (long n = 0; err; n++) {
        struct tb_plan *p = NULL;
        CHECK(n < 100);
        tb_mem_fail_after(n);
        err = tb_plan_parse(&p, text, sizeof(text) - 1);
        tb_mem_fail_after(-1);
        CHECK(err == TB_OK || err == TB_ERR_NO_MEM);
        tb_plan_free(p);
    }
}

int main(void)
{
    test_whole();
    test_short();
    test_sockets();
    test_bad();
    test_mangled();
    test_descriptors();
    test_out_of_memory();
    return 0;
}
