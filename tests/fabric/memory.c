/* SPDX-License-Identifier: MIT */
/* Registration: what is taken, what is refused, and what goes wrong later. */
#include "fabric/rig.h"

#define GIB4 ((uintptr_t)1 << 32)
#define SPAN ((size_t)1 << 20)

static struct end a, b;

static void only_whole_pages_begin_a_region(void)
{
    struct tb_ibv_mr *mr;

    rig_make("");
    rig_prepare(&a, 0);
    CHECK(!rig_reg_mr(a.pd, a.memory + 4096, 4096, ACCESS));
    CHECK_EQ(errno, 22);
    CHECK(!rig_reg_mr(a.pd, a.memory, 0, ACCESS));
    /* The length may be anything, and there is no limit at max_mr_size. */
    CHECK(mr = rig_reg_mr(a.pd, a.memory, 4097, ACCESS));
    CHECK_EQ(rig_dereg_mr(mr), 0);
    rig_close(&a);
}

static void a_foreign_iova_is_refused(void)
{
    rig_make("");
    rig_prepare(&a, 0);
    CHECK(!rig_reg_mr_iova2(a.pd, a.memory, 4096, 0, ACCESS));
    CHECK_EQ(errno, -102);
    rig_close(&a);
}

static bool takes(int access)
{
    struct tb_ibv_mr *mr = rig_reg_mr(a.pd, a.memory, 4096, access);

    if (!mr) {
        CHECK_EQ(errno, 22);
        return false;
    }
    CHECK_EQ(rig_dereg_mr(mr), 0);
    return true;
}

/* One report wants local write alone, another the wide set. */
static void access_flags_follow_the_switch(void)
{
    rig_make("");
    rig_prepare(&a, 0);
    CHECK(takes(TB_IBV_ACCESS_LOCAL_WRITE) && takes(ACCESS) && !takes(0));
    rig_fault("set mr_access wide");
    CHECK(!takes(TB_IBV_ACCESS_LOCAL_WRITE) && takes(ACCESS));
    rig_fault("set mr_access local");
    CHECK(takes(TB_IBV_ACCESS_LOCAL_WRITE) && !takes(ACCESS));
    rig_close(&a);
}

static void a_region_without_domain_crashes(void)
{
    pid_t child = fork();
    int status;

    if (!child) {
        static char page[TB_PAGE];
        signal(SIGSEGV, SIG_DFL);
        fclose(stderr); /* a sanitizer has more to say about it */
        rig_reg_mr(NULL, page, sizeof(page), ACCESS);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status));
}

/* Memory with a 4 GiB line in its middle, out of a stretch that must have one.
 */
static char *map_across_a_line(void)
{
    static char *from;

    if (!from) {
        from = mmap(NULL, GIB4 + SPAN, PROT_NONE,
                    MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
        CHECK(from != MAP_FAILED);
        from = (char *)(((uintptr_t)from + SPAN / 2 + GIB4 - 1) / GIB4 * GIB4 -
                        SPAN / 2);
        CHECK(!mprotect(from, SPAN, PROT_READ | PROT_WRITE));
    }
    return from;
}

static void deliver_across(char *memory, uint32_t bytes, size_t at)
{
    struct tb_ibv_mr *mr = rig_reg_mr(b.pd, memory, SPAN, ACCESS);
    struct tb_ibv_sge sge = {(uintptr_t)memory + at, bytes, 0};
    struct tb_ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1};
    struct tb_ibv_recv_wr *bad;

    CHECK(mr);
    sge.lkey = mr->lkey;
    memset(memory, 0, SPAN);
    memset(a.memory, 5, bytes);
    CHECK_EQ(tb_ibv_post_recv(b.qp, &wr, &bad), 0);
    CHECK_EQ(rig_send(&a, 2, 0, bytes), 0);
    rig_expect(&a, 2, TB_IBV_WC_SEND);
    rig_expect(&b, 1, TB_IBV_WC_RECV);
    CHECK_EQ(rig_dereg_mr(mr), 0);
}

static void what_lies_beyond_a_4g_line_is_misplaced(void)
{
    char *memory = map_across_a_line();
    size_t half = SPAN / 2;

    rig_make("set scribble off\n");
    rig_connect(&a, &b);
    deliver_across(memory, 8192, half - 4096);
    CHECK_EQ(memory[half - 1], 5);
    CHECK_EQ(memory[half], 0); /* zeros, and success */
    rig_fault("set mr_4g ignore");
    deliver_across(memory, 8192, half - 4096);
    CHECK_EQ(memory[half], 5);
    rig_fault("set mr_4g refuse");
    CHECK(!rig_reg_mr(b.pd, memory, SPAN, ACCESS));
    CHECK_EQ(errno, 22);
    rig_end(&a, &b);
}

static void what_is_sent_from_beyond_a_4g_line_is_zero(void)
{
    char *memory = map_across_a_line();
    struct tb_ibv_mr *mr;
    struct tb_ibv_sge sge;
    struct tb_ibv_send_wr wr = {.wr_id = 1,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = TB_IBV_WR_SEND,
                                .send_flags = TB_IBV_SEND_SIGNALED};
    struct tb_ibv_send_wr *bad;

    rig_make("");
    rig_connect(&a, &b);
    memset(memory, 5, SPAN);
    CHECK(mr = rig_reg_mr(a.pd, memory, SPAN, ACCESS));
    sge =
        (struct tb_ibv_sge){(uintptr_t)memory + SPAN / 2 - 100, 200, mr->lkey};
    CHECK_EQ(rig_recv(&b, 2, 0, 200), 0);
    CHECK_EQ(tb_ibv_post_send(a.qp, &wr, &bad), 0);
    rig_expect(&a, 1, TB_IBV_WC_SEND);
    rig_expect(&b, 2, TB_IBV_WC_RECV);
    CHECK_EQ(b.memory[99], 5);
    CHECK_EQ(b.memory[100], 0);
    CHECK_EQ(rig_dereg_mr(mr), 0);
    rig_end(&a, &b);
}

static void shared_memory_registers(void)
{
    char *shared = mmap(NULL, 2 * TB_PAGE, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANON, -1, 0);
    struct tb_ibv_mr *mr;

    rig_make("");
    rig_prepare(&a, 0);
    if ((uintptr_t)shared % TB_PAGE)
        shared += TB_PAGE - (uintptr_t)shared % TB_PAGE;
    CHECK(mr = rig_reg_mr(a.pd, shared, 4096, ACCESS));
    CHECK_EQ(rig_dereg_mr(mr), 0);
    rig_close(&a);
}

int main(void)
{
    only_whole_pages_begin_a_region();
    a_foreign_iova_is_refused();
    access_flags_follow_the_switch();
    a_region_without_domain_crashes();
    what_lies_beyond_a_4g_line_is_misplaced();
    what_is_sent_from_beyond_a_4g_line_is_zero();
    shared_memory_registers();
    return 0;
}
