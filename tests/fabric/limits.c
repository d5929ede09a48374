/* SPDX-License-Identifier: MIT */
/* What a device shows, and how much of everything it gives. */
#include "fabric/rig.h"

static struct end a, b;

static void devices_are_those_of_the_host(void)
{
    struct tb_ibv_device **list;
    int count;

    rig_describe("host 0 one\nhost 1 two\nhost 2 three\n"
                 "cable 0 0 rdma_en2 169.254.1.1 1 rdma_en2 169.254.1.2\n"
                 "cable 1 1 rdma_en3 169.254.2.1 2 rdma_en2 169.254.2.2\n");
    tbmpi_fabric_host(1);
    list = rig_get_device_list(&count);
    CHECK_EQ(count, 2);
    CHECK(!strcmp(rig_get_device_name(list[0]), "rdma_en2"));
    CHECK(!strcmp(rig_get_device_name(list[1]), "rdma_en3"));
    CHECK(!list[2]);
    CHECK_EQ(list[0]->transport_type, 100);
    rig_free_device_list(list);
    /* The count may be left out; by the environment, when no thread says. */
    tbmpi_fabric_host(-1);
    setenv("TBMPI_FABRIC_HOST", "2", 1);
    list = rig_get_device_list(NULL);
    CHECK(list && list[0] && !list[1]);
    rig_free_device_list(list);
}

static void a_missing_fabric_is_no_device(void)
{
    int count = 7;

    setenv("TBMPI_FABRIC_HOST", "63", 1);
    CHECK(!rig_get_device_list(&count));
    CHECK_EQ(count, 0);
    CHECK_EQ(errno, ENOENT);
    unsetenv("TBMPI_FABRIC");
    CHECK(!rig_get_device_list(&count));
}

static void a_device_shows_apples_limits(void)
{
    struct tb_ibv_device_attr attr;
    struct tb_ibv_port_attr port;

    memset(&port, 0x55, sizeof(port));
    rig_make("");
    rig_prepare(&a, 0);
    CHECK(!rig_query_device(a.context, &attr));
    CHECK_EQ(attr.max_qp, 11); /* one more than it gives */
    CHECK_EQ(attr.max_pd, 11);
    CHECK_EQ(attr.max_cq, 11);
    CHECK_EQ(attr.max_mr, 100);
    CHECK_EQ(attr.max_mr_size, 0xfa0000);
    CHECK_EQ(attr.max_qp_wr, 4095);
    CHECK_EQ(attr.max_sge, 1);
    CHECK_EQ(attr.max_srq, 0);
    CHECK_EQ(attr.max_qp_rd_atom, 0);
    CHECK_EQ(attr.atomic_cap, 0);
    CHECK_EQ(attr.phys_port_cnt, 1);
    CHECK(!rig_query_port(a.context, 1, &port));
    CHECK_EQ(port.state, TB_IBV_PORT_ACTIVE);
    CHECK_EQ(port.active_mtu, TB_IBV_MTU_4096);
    CHECK_EQ(port.max_msg_sz, 0x1000000);
    CHECK(port.lid > 0);
    CHECK(port.link_layer != TB_IBV_LINK_LAYER_ETHERNET);
    CHECK_EQ(port.port_cap_flags2, 0x5555); /* beyond the old struct */
    CHECK_EQ(rig_query_port(a.context, 2, &port), 22);
    rig_fault("set present ethernet");
    CHECK(!rig_query_port(a.context, 1, &port));
    CHECK_EQ(port.link_layer, TB_IBV_LINK_LAYER_ETHERNET);
    rig_close(&a);
}

static void gids_are_addresses(void)
{
    union tb_ibv_gid gid;

    rig_make("");
    rig_prepare(&a, 0);
    CHECK_EQ(a.gid_index, 1);
    CHECK(!memcmp(a.gid.raw + 12, "\xa9\xfe\x01\x01", 4));
    CHECK(!rig_query_gid(a.context, 1, 0, &gid));
    CHECK(gid.raw[0] == 0xfe && gid.raw[1] == 0x80);
    CHECK(!rig_query_gid(a.context, 1, 2, &gid));
    CHECK(gid.raw[0] == 0xfe && gid.raw[1] == 0x80);
    CHECK_EQ(rig_query_gid(a.context, 1, 3, &gid), -1);
    CHECK_EQ(errno, 22);
    rig_close(&a);
}

static void the_ipv4_gid_lies_where_the_switch_says(void)
{
    for (int at = 0; at < 5; at++) {
        char setting[32];
        snprintf(setting, sizeof(setting), "set gid_index %d\n", at);
        rig_make(setting);
        rig_connect(&a, &b);
        CHECK_EQ(a.gid_index, at);
        rig_exchange(&a, &b, 64);
        rig_end(&a, &b);
    }
}

static void without_an_address_there_is_no_ipv4_gid(void)
{
    struct tb_ibv_port_attr port;
    union tb_ibv_gid gid;

    rig_describe("host 0 a\nhost 1 b\ncable 0 0 d - 1 d 10.0.0.1\n");
    a.context = rig_open(0, 0);
    CHECK_EQ(rig_find_ipv4(a.context, &gid), -1);
    rig_fault("address 0 d 10.0.0.2 2");
    CHECK_EQ(rig_find_ipv4(a.context, &gid), 2);
    CHECK(!memcmp(gid.raw + 12, "\x0a\x00\x00\x02", 4));
    rig_fault("address 0 d none");
    CHECK_EQ(rig_find_ipv4(a.context, &gid), -1);
    CHECK(!rig_query_port(a.context, 1, &port));
    CHECK_EQ(port.gid_tbl_len, 2);
    CHECK_EQ(rig_close_device(a.context), 0);
}

static void a_device_gives_eleven_domains_and_queues(void)
{
    struct tb_ibv_pd *pd[11];
    struct tb_ibv_cq *cq[11];
    struct tb_ibv_context *one, *two;

    rig_make("");
    one = rig_open(0, 0);
    two = rig_open(0, 0);
    for (int i = 0; i < 11; i++) {
        struct tb_ibv_context *c = i % 2 ? one : two;
        CHECK(pd[i] = rig_alloc_pd(c));
        CHECK(cq[i] = rig_create_cq(c, 64, NULL, NULL, 0));
    }
    CHECK(!rig_alloc_pd(one));
    CHECK_EQ(errno, 12);
    CHECK(!rig_create_cq(one, 64, NULL, NULL, 0));
    for (int i = 0; i < 11; i++) {
        CHECK_EQ(rig_dealloc_pd(pd[i]), 0);
        CHECK_EQ(rig_destroy_cq(cq[i]), 0);
    }
    CHECK_EQ(rig_close_device(one), 0);
    CHECK_EQ(rig_close_device(two), 0);
}

/* As with the process, so with the context: what is left in it goes too. */
static void a_context_takes_along_what_is_in_it(void)
{
    rig_make("");
    for (int i = 0; i < 20; i++) {
        rig_prepare(&a, 0);
        CHECK_EQ(rig_close_device(a.context), 0);
    }
}

static void a_device_gives_ten_queue_pairs(void)
{
    struct tb_ibv_qp *qp[9];

    rig_make("");
    rig_prepare(&a, 0); /* has one */
    for (int i = 0; i < 9; i++)
        CHECK(qp[i] = rig_pair(&a, 16));
    CHECK(!rig_pair(&a, 16));
    CHECK_EQ(errno, 16);
    CHECK_EQ(rig_destroy_qp(qp[0]), 0);
    CHECK(qp[0] = rig_pair(&a, 16));
    rig_fault("set qp_max 3");
    CHECK_EQ(rig_destroy_qp(qp[0]), 0);
    CHECK(!rig_pair(&a, 16));
    /* Others depend on them. */
    CHECK_EQ(rig_destroy_cq(a.cq), 16);
    CHECK_EQ(rig_dealloc_pd(a.pd), 16);
    for (int i = 1; i < 9; i++)
        CHECK_EQ(rig_destroy_qp(qp[i]), 0);
    rig_close(&a);
}

static void a_device_gives_a_hundred_regions(void)
{
    struct tb_ibv_mr *mr[200];
    struct tb_ibv_pd *other;
    int count = 0;

    rig_make("");
    rig_prepare(&a, 0);
    CHECK(other = rig_alloc_pd(a.context));
    while (count < 200 && (mr[count] = rig_reg_mr(count % 2 ? a.pd : other,
                                                  a.memory, 4096, ACCESS)))
        count++;
    CHECK_EQ(errno, 12);
    CHECK_EQ(count, 99); /* and the rig's own */
    rig_fault("set mr_scope pd");
    while (count < 200 && (mr[count] = rig_reg_mr(count % 2 ? a.pd : other,
                                                  a.memory, 4096, ACCESS)))
        count++;
    CHECK_EQ(count, 199);
    while (count)
        CHECK_EQ(rig_dereg_mr(mr[--count]), 0);
    CHECK_EQ(rig_dealloc_pd(other), 0);
    rig_close(&a);
}

static uint32_t granted(uint32_t asked)
{
    struct tb_ibv_qp_init_attr init;
    struct tb_ibv_qp_attr attr;
    struct tb_ibv_qp *qp = rig_pair(&a, asked);

    CHECK(qp);
    CHECK(!rig_query_qp(qp, &attr, TB_IBV_QP_CAP, &init));
    CHECK_EQ(attr.cap.max_send_wr, attr.cap.max_recv_wr);
    CHECK_EQ(attr.cap.max_send_wr, init.cap.max_send_wr);
    CHECK_EQ(attr.cap.max_send_sge, 1);
    CHECK_EQ(rig_destroy_qp(qp), 0);
    return attr.cap.max_send_wr;
}

static void depths_are_changed_by_the_driver(void)
{
    rig_make("");
    rig_prepare(&a, 0);
    CHECK_EQ(granted(256), 1023);
    CHECK_EQ(granted(4095), 4095);
    CHECK(!rig_pair(&a, 4096));
    CHECK_EQ(errno, 22);
    rig_fault("set depth exact");
    CHECK_EQ(granted(256), 256);
    rig_fault("set depth half");
    CHECK_EQ(granted(256), 128);
    rig_close(&a);
}

static int refusal(struct tb_ibv_qp_init_attr attr)
{
    attr.send_cq = attr.recv_cq = a.cq;
    errno = 0;
    CHECK(!rig_create_qp(a.pd, &attr));
    return errno;
}

static void only_uc_with_one_sge_and_nothing_inline(void)
{
    struct tb_ibv_qp_init_attr attr = {.cap = {16, 16, 1, 1, 0},
                                       .qp_type = TB_IBV_QPT_RC};

    rig_make("");
    rig_prepare(&a, 0);
    CHECK_EQ(refusal(attr), 102);
    attr.qp_type = TB_IBV_QPT_UD;
    CHECK_EQ(refusal(attr), 102);
    attr.qp_type = TB_IBV_QPT_UC;
    attr.cap.max_send_sge = 2;
    CHECK_EQ(refusal(attr), 22);
    attr.cap.max_send_sge = 1;
    attr.cap.max_inline_data = 64;
    CHECK_EQ(refusal(attr), 22);
    rig_fault("set errno native");
    attr.qp_type = TB_IBV_QPT_RC;
    CHECK_EQ(refusal(attr), EOPNOTSUPP);
    rig_close(&a);
}

static void there_is_no_completion_channel(void)
{
    rig_make("");
    rig_prepare(&a, 0);
    CHECK(!rig_create_comp_channel(a.context));
    CHECK(a.cq->context->ops.req_notify_cq(a.cq, 0));
    rig_close(&a);
}

int main(void)
{
    devices_are_those_of_the_host();
    a_missing_fabric_is_no_device();
    a_device_shows_apples_limits();
    gids_are_addresses();
    the_ipv4_gid_lies_where_the_switch_says();
    without_an_address_there_is_no_ipv4_gid();
    a_device_gives_eleven_domains_and_queues();
    a_context_takes_along_what_is_in_it();
    a_device_gives_ten_queue_pairs();
    a_device_gives_a_hundred_regions();
    depths_are_changed_by_the_driver();
    only_uc_with_one_sge_and_nothing_inline();
    there_is_no_completion_channel();
    return 0;
}
