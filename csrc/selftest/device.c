/* SPDX-License-Identifier: MIT */
/* What one device tells about itself, and how much it gives. */
#include "selftest/station.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#define TRIES 64     /* more than any device is said to give */
#define REGIONS 1100 /* the same for regions, by the loosest report */
#define DEPTHS 4
#define REGION_BYTES TB_PAGE

static struct tb_ibv_cq *make_cq(struct tb_station *st, int entries)
{
    return st->verbs->create_cq(st->device.context, entries, NULL, NULL, 0);
}

static struct tb_ibv_qp *make_qp(struct tb_station *st, struct tb_ibv_cq *cq,
                                 enum tb_ibv_qp_type type, uint32_t depth,
                                 uint32_t inline_bytes)
{
    struct tb_ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = depth,
                .max_recv_wr = depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = inline_bytes},
        .qp_type = type,
    };

    errno = 0;
    return st->verbs->create_qp(st->device.pd, &init);
}

/* ---------------------------------------------------------- what it tells */

static void probe_port(struct tb_station *st)
{
    int type = (int)st->device.context->device->transport_type;
    struct tb_ibv_port_attr port;
    const char *seen = type == 100 ? "thunderbolt" : "other";
    union tb_ibv_gid gid;
    int gids = 0;

    tb_begin(st, "port");
    memset(&port, 0, sizeof(port));
    st->verbs->query_port(st->device.context, 1, &port);
    while (gids < port.gid_tbl_len &&
           !st->verbs->query_gid(st->device.context, 1, gids, &gid))
        gids++;
    tb_report(st, "port", seen, "",
              "\"transport\": %d, \"link_layer\": %d, \"mtu\": %d, "
              "\"max_message\": %u, \"lid\": %d",
              type, port.link_layer, (int)port.active_mtu, port.max_msg_sz,
              port.lid);
    tb_report(st, "gid", st->device.gid_index == 1 ? "first" : "elsewhere", "",
              "\"index\": %d, \"gids\": %d", st->device.gid_index, gids);
}

/* The call is not among those that the library needs. */
static void probe_advertised(struct tb_station *st)
{
    int (*query)(struct tb_ibv_context *, struct tb_ibv_device_attr *);
    struct tb_ibv_device_attr a;

    *(void **)&query = dlsym(st->verbs->library, "ibv_query_device");
    memset(&a, 0, sizeof(a));
    if (!query || query(st->device.context, &a)) {
        tb_report(st, "advertised", "nothing", "", "%s", "");
        return;
    }
    tb_report(st, "advertised", "limits", "",
              "\"qp\": %d, \"qp_wr\": %d, \"sge\": %d, \"cq\": %d, "
              "\"cqe\": %d, \"mr\": %d, \"pd\": %d, \"mr_bytes\": %llu, "
              "\"srq\": %d, \"atomic\": %d",
              a.max_qp, a.max_qp_wr, a.max_sge, a.max_cq, a.max_cqe, a.max_mr,
              a.max_pd, (unsigned long long)a.max_mr_size, a.max_srq,
              a.atomic_cap);
}

static void probe_channel(struct tb_station *st)
{
    struct tb_ibv_comp_channel *(*create)(struct tb_ibv_context *);
    int (*destroy)(struct tb_ibv_comp_channel *);
    struct tb_ibv_comp_channel *channel = NULL;

    tb_begin(st, "channel");
    *(void **)&create = dlsym(st->verbs->library, "ibv_create_comp_channel");
    *(void **)&destroy = dlsym(st->verbs->library, "ibv_destroy_comp_channel");
    errno = 0;
    if (create && destroy)
        channel = create(st->device.context);
    tb_report(st, "channel", channel ? "offered" : "none", "", "\"errno\": %d",
              channel ? 0 : errno);
    if (channel)
        destroy(channel);
}

/* ---------------------------------------------------------- what it grants */

static void probe_types(struct tb_station *st, struct tb_ibv_cq *cq)
{
    struct tb_ibv_qp *rc, *ud;
    int rc_code, ud_code;
    const char *numbers = "neither";

    tb_begin(st, "types");
    rc = make_qp(st, cq, TB_IBV_QPT_RC, 16, 0);
    rc_code = rc ? 0 : errno;
    ud = make_qp(st, cq, TB_IBV_QPT_UD, 16, 0);
    ud_code = ud ? 0 : errno;
    if (rc)
        st->verbs->destroy_qp(rc);
    if (ud)
        st->verbs->destroy_qp(ud);
    tb_report(st, "types", rc || ud ? "others" : "only_uc", "",
              "\"rc\": %d, \"ud\": %d", rc_code, ud_code);
    if (rc_code == 102)
        numbers = "darwin";
    else if (rc_code == EOPNOTSUPP)
        numbers = "native";
    tb_report(st, "errno", rc ? "not_seen" : numbers, "", "\"number\": %d",
              rc_code);
}

static const char *name_of_depths(const uint32_t asked[DEPTHS],
                                  const uint32_t granted[DEPTHS])
{
    bool exact = true, less = false, refused = true;

    for (int i = 0; i < DEPTHS; i++) {
        exact = exact && granted[i] == asked[i];
        less = less || (granted[i] && granted[i] < asked[i]);
        refused = refused && !granted[i];
    }
    if (refused)
        return "refused";
    if (exact)
        return "exact";
    return less ? "less" : "more";
}

static void probe_depths(struct tb_station *st)
{
    static const uint32_t asked[DEPTHS] = {256, 1100, 2000, 4095};
    uint32_t granted[DEPTHS];

    tb_begin(st, "depth");
    for (int i = 0; i < DEPTHS; i++) {
        struct tb_ibv_qp_cap cap = {.max_send_wr = asked[i],
                                    .max_recv_wr = asked[i],
                                    .max_send_sge = 1,
                                    .max_recv_sge = 1};
        struct tb_pair pair;
        granted[i] = tb_pair_make(&pair, st, &cap) ? 0 : pair.recv_frames;
        tb_pair_drop(&pair);
    }
    tb_report(st, "depth", name_of_depths(asked, granted), "",
              "\"256\": %u, \"1100\": %u, \"2000\": %u, \"4095\": %u",
              granted[0], granted[1], granted[2], granted[3]);
}

static void probe_inline(struct tb_station *st, struct tb_ibv_cq *cq)
{
    struct tb_ibv_qp *qp;

    tb_begin(st, "inline");
    qp = make_qp(st, cq, TB_IBV_QPT_UC, 16, 64);
    tb_report(st, "inline", qp ? "granted" : "refused", "", "\"errno\": %d",
              qp ? 0 : errno);
    if (qp)
        st->verbs->destroy_qp(qp);
}

/* How many queue pairs can be made, all on one completion queue. */
static int count_pairs(struct tb_station *st, struct tb_ibv_cq *cq, int *code)
{
    struct tb_ibv_qp *made[TRIES];
    int n = 0;

    *code = 0;
    while (n < TRIES && !*code) {
        made[n] = make_qp(st, cq, TB_IBV_QPT_UC, 16, 0);
        if (made[n])
            n++;
        else
            *code = tb_code(-1);
    }
    for (int i = 0; i < n; i++)
        st->verbs->destroy_qp(made[i]);
    return n;
}

static int count_domains(struct tb_station *st, int *code)
{
    struct tb_ibv_pd *made[TRIES];
    int n = 0;

    *code = 0;
    while (n < TRIES && !*code) {
        errno = 0;
        made[n] = st->verbs->alloc_pd(st->device.context);
        if (made[n])
            n++;
        else
            *code = tb_code(-1);
    }
    for (int i = 0; i < n; i++)
        st->verbs->dealloc_pd(made[i]);
    return n;
}

static int count_queues(struct tb_station *st, int *code)
{
    struct tb_ibv_cq *made[TRIES];
    int n = 0;

    *code = 0;
    while (n < TRIES && !*code) {
        errno = 0;
        made[n] = make_cq(st, 16);
        if (made[n])
            n++;
        else
            *code = tb_code(-1);
    }
    for (int i = 0; i < n; i++)
        st->verbs->destroy_cq(made[i]);
    return n;
}

/* The counts include what this process has already. */
static void probe_counts(struct tb_station *st, struct tb_ibv_cq *cq)
{
    int code, n;

    tb_begin(st, "queue_pairs");
    n = count_pairs(st, cq, &code);
    tb_report(st, "queue_pairs", code ? "limited" : "many", "",
              "\"count\": %d, \"errno\": %d", n, code);
    tb_begin(st, "domains");
    n = count_domains(st, &code);
    tb_report(st, "domains", code ? "limited" : "many", "",
              "\"count\": %d, \"errno\": %d", n + 1, code);
    tb_begin(st, "queues");
    n = count_queues(st, &code);
    tb_report(st, "queues", code ? "limited" : "many", "",
              "\"count\": %d, \"errno\": %d", n + 1, code);
}

/* ------------------------------------------------------------------ regions */

static struct tb_ibv_mr *try_region(struct tb_station *st, struct tb_ibv_pd *pd,
                                    void *at, int access)
{
    errno = 0;
    return st->verbs->reg_mr(pd, at, REGION_BYTES, access);
}

static void probe_access(struct tb_station *st)
{
    static const int flags[] = {
        TB_IBV_ACCESS_LOCAL_WRITE,
        TB_IBV_ACCESS_LOCAL_WRITE | TB_IBV_ACCESS_REMOTE_READ |
            TB_IBV_ACCESS_REMOTE_WRITE,
    };
    bool taken[2];
    const char *seen;

    tb_begin(st, "access");
    for (int i = 0; i < 2; i++) {
        struct tb_ibv_mr *mr = try_region(st, st->device.pd, st->out, flags[i]);
        taken[i] = mr != NULL;
        if (mr)
            st->verbs->dereg_mr(mr);
    }
    seen = taken[0] ? (taken[1] ? "any" : "local")
                    : (taken[1] ? "wide" : "refused");
    tb_report(st, "access", seen, "", "\"local\": %d, \"wide\": %d", taken[0],
              taken[1]);
}

static void probe_alignment(struct tb_station *st)
{
    struct tb_ibv_mr *mr;

    tb_begin(st, "alignment");
    errno = 0;
    mr = st->verbs->reg_mr(st->device.pd, st->out + TB_FRAME_BYTES,
                           REGION_BYTES, TB_IBV_ACCESS_LOCAL_WRITE);
    tb_report(st, "alignment", mr ? "any" : "page", "", "\"errno\": %d",
              mr ? 0 : errno);
    if (mr)
        st->verbs->dereg_mr(mr);
}

/* Older drivers are said to crash at the limit, so this one is daring. */
static void probe_regions(struct tb_station *st)
{
    static struct tb_ibv_mr *made[REGIONS];
    struct tb_ibv_mr *more = NULL;
    struct tb_ibv_pd *other;
    int n = 0, code = 0;

    tb_begin(st, "regions");
    while (n < REGIONS && !code) {
        made[n] =
            try_region(st, st->device.pd, st->out, TB_IBV_ACCESS_LOCAL_WRITE);
        if (!made[n])
            made[n] = try_region(st, st->device.pd, st->out,
                                 TB_IBV_ACCESS_LOCAL_WRITE |
                                     TB_IBV_ACCESS_REMOTE_READ |
                                     TB_IBV_ACCESS_REMOTE_WRITE);
        if (made[n])
            n++;
        else
            code = tb_code(-1);
    }
    tb_report(st, "regions", code ? "limited" : "many", "",
              "\"count\": %d, \"errno\": %d", n + 1, code);
    other = code ? st->verbs->alloc_pd(st->device.context) : NULL;
    if (other)
        more =
            try_region(st, other, st->in,
                       TB_IBV_ACCESS_LOCAL_WRITE | TB_IBV_ACCESS_REMOTE_READ |
                           TB_IBV_ACCESS_REMOTE_WRITE);
    if (other && !more)
        more = try_region(st, other, st->in, TB_IBV_ACCESS_LOCAL_WRITE);
    if (other)
        tb_report(st, "region_scope", more ? "domain" : "device", "", "%s", "");
    if (more)
        st->verbs->dereg_mr(more);
    if (other)
        st->verbs->dealloc_pd(other);
    while (n)
        st->verbs->dereg_mr(made[--n]);
}

void tb_probe_device(struct tb_station *st)
{
    struct tb_ibv_cq *cq;

    probe_port(st);
    probe_advertised(st);
    probe_channel(st);
    probe_access(st);
    probe_alignment(st);
    if (st->daring)
        probe_regions(st);
    cq = make_cq(st, 1024);
    if (cq) {
        probe_types(st, cq);
        probe_inline(st, cq);
        probe_counts(st, cq);
        st->verbs->destroy_cq(cq);
    }
    probe_depths(st);
}

/* ---------------------------------------------------------- other commands */

/* One line: the device's name, whether its port is up, its addresses. */
static void print_device(struct tb_verbs *v, struct tb_ibv_device *device)
{
    struct tb_ibv_context *context = v->open_device(device);
    struct tb_ibv_port_attr port;
    const char *comma = "";

    fputs("{\"device\": ", stdout);
    tb_print_text(v->get_device_name(device));
    memset(&port, 0, sizeof(port));
    if (context)
        v->query_port(context, 1, &port);
    printf(", \"up\": %s, \"addresses\": [",
           port.state == TB_IBV_PORT_ACTIVE ? "true" : "false");
    for (int i = 0; context && i < port.gid_tbl_len && i < 256; i++) {
        union tb_ibv_gid g;
        if (v->query_gid(context, 1, i, &g) || g.raw[10] != 0xff ||
            g.raw[11] != 0xff)
            continue;
        printf("%s\"%d.%d.%d.%d\"", comma, g.raw[12], g.raw[13], g.raw[14],
               g.raw[15]);
        comma = ", ";
    }
    puts("]}");
    if (context)
        v->close_device(context);
}

int tb_list_devices(const struct tb_config *config)
{
    struct tb_ibv_device **list;
    struct tb_verbs *v;

    if (tb_verbs_open(&v, config->librdma)) {
        fprintf(stderr, "tbmpi-selftest: %s\n", tb_fail_note());
        return 1;
    }
    list = v->get_device_list(NULL);
    for (int i = 0; list && list[i]; i++)
        print_device(v, list[i]);
    if (list)
        v->free_device_list(list);
    tb_verbs_close(v);
    return 0;
}

static bool read_gid(const char *text, uint8_t gid[16])
{
    unsigned a, b, c, d;
    char rest;

    if (sscanf(text, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &rest) != 4 ||
        (a | b | c | d) > 255)
        return false;
    memset(gid, 0, 16);
    gid[10] = gid[11] = 0xff;
    gid[12] = (uint8_t)a;
    gid[13] = (uint8_t)b;
    gid[14] = (uint8_t)c;
    gid[15] = (uint8_t)d;
    return true;
}

static tb_err open_alone(struct tb_station *st, const struct tb_config *config,
                         const char *address)
{
    if (!read_gid(address, st->gid))
        return tb_fail(TB_ERR_ARG, "'%s' is no IPv4 address", address);
    TB_TRY(tb_verbs_open(&st->verbs, config->librdma));
    return tb_device_open(&st->device, st->verbs, st->gid, address);
}

int tb_hold_device(const struct tb_config *config, const char *address)
{
    struct tb_ibv_qp_cap cap = {16, 16, 1, 1, 0};
    struct tb_station st = {.config = config};
    struct tb_pair pair = {.st = &st};
    int code = 1;

    if (open_alone(&st, config, address)) {
        fprintf(stderr, "tbmpi-selftest: %s\n", tb_fail_note());
    } else {
        code = tb_pair_make(&pair, &st, &cap);
        printf("{\"held\": %d}\n", code);
        fflush(stdout);
        while (getchar() != EOF)
            continue;
        tb_pair_drop(&pair);
    }
    if (st.verbs)
        tb_device_close(&st.device);
    tb_verbs_close(st.verbs);
    return code ? 1 : 0;
}

/* How many queue pairs the device has left, and what RTR answers. */
static void try_pairs(struct tb_station *st, int *pairs, int *reached)
{
    const struct tb_ibv_qp_cap cap = {16, 16, 1, 1, 0};
    struct tb_ibv_cq *cq = make_cq(st, 16);
    struct tb_pair pair;
    int code;

    *pairs = cq ? count_pairs(st, cq, &code) : 0;
    if (cq)
        st->verbs->destroy_cq(cq);
    *reached = tb_pair_make(&pair, st, &cap);
    if (!*reached)
        *reached = tb_pair_reach(&pair);
    tb_pair_drop(&pair);
}

int tb_try_device(const struct tb_config *config, const char *address,
                  const char *peer)
{
    struct tb_station st = {.config = config};
    int pairs, reached, code = 1;

    if (!read_gid(peer, st.peer_gid)) {
        fprintf(stderr, "tbmpi-selftest: '%s' is no IPv4 address\n", peer);
        return 1;
    }
    if (open_alone(&st, config, address)) {
        fprintf(stderr, "tbmpi-selftest: %s\n", tb_fail_note());
    } else {
        try_pairs(&st, &pairs, &reached);
        printf("{\"queue_pairs\": %d, \"rtr\": %d}\n", pairs, reached);
        code = 0;
    }
    if (st.verbs)
        tb_device_close(&st.device);
    tb_verbs_close(st.verbs);
    return code;
}
