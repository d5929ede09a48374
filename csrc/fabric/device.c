/* SPDX-License-Identifier: MIT */
/* Devices: listing, opening and asking them. */
#include "fabric/objects.h"
#include "fabric/tbmpi_fabric.h"

#include "base/config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/mman.h>

#define MAX_MR_SIZE 0xfa0000 /* advertised; not what it takes */
#define MAX_MSG_SIZE 0x1000000
#define PHYS_LINK_UP 5
#define PHYS_POLLING 2
#define PORT_BYTES offsetof(struct tb_ibv_port_attr, port_cap_flags2)

FAB_VERB(struct tb_ibv_device **, get_device_list, int *count);
FAB_VERB(void, free_device_list, struct tb_ibv_device **list);
FAB_VERB(const char *, get_device_name, struct tb_ibv_device *device);
FAB_VERB(uint64_t, get_device_guid, struct tb_ibv_device *device);
FAB_VERB(struct tb_ibv_context *, open_device, struct tb_ibv_device *device);
FAB_VERB(int, close_device, struct tb_ibv_context *context);
FAB_VERB(int, query_device, struct tb_ibv_context *context,
         struct tb_ibv_device_attr *out);
FAB_VERB(int, query_port, struct tb_ibv_context *context, uint8_t port,
         struct tb_ibv_port_attr *out);
FAB_VERB(int, query_gid, struct tb_ibv_context *context, uint8_t port,
         int index, union tb_ibv_gid *out);
FAB_VERB(int, query_pkey, struct tb_ibv_context *context, uint8_t port,
         int index, uint16_t *out);

static _Thread_local int chosen_host = -1;

__attribute__((visibility("default"))) int tbmpi_fabric_host(int host)
{
    int was = chosen_host;

    chosen_host = host;
    return was;
}

int fab_code(const struct fab_state *s, int darwin)
{
    if (fab_sw(s, FAB_SW_errno) == FAB_ERRNO_DARWIN)
        return darwin;
    switch (darwin) {
    case FAB_ENXIO:
        return ENXIO;
    case FAB_ENOMEM:
        return ENOMEM;
    case FAB_EFAULT:
        return EFAULT;
    case FAB_EBUSY:
        return EBUSY;
    case FAB_EINVAL:
        return EINVAL;
    case FAB_ETIMEDOUT:
        return ETIMEDOUT;
    case FAB_ENODATA:
        return ENODATA;
    case FAB_EOPNOTSUPP:
        return EOPNOTSUPP;
    default:
        return darwin;
    }
}

/* ---------------------------------------------------------------- listing */

/* The fabric and the host that this thread is on. */
static tb_err find_fabric(struct fab_map **map, uint32_t *host)
{
    const char *path = tb_env("TBMPI_FABRIC");
    const char *number = tb_env("TBMPI_FABRIC_HOST");
    uint64_t value = (uint64_t)chosen_host;

    if (!path || !*path)
        return tb_fail(TB_ERR_ARG, "TBMPI_FABRIC does not name a fabric's "
                                   "state file, so there are no devices");
    if (chosen_host < 0 &&
        (!number || !fab_parse_count(number, FAB_HOSTS - 1, &value)))
        return tb_fail(TB_ERR_ARG,
                       "TBMPI_FABRIC_HOST is '%.40s' and not the number of a "
                       "virtual Mac",
                       number ? number : "");
    TB_TRY(fab_attach(path, map));
    if (value >= FAB_HOSTS || !(*map)->s->host[value].name[0]) {
        fab_release(*map);
        return tb_fail(TB_ERR_ARG, "the fabric %s has no host %d", path,
                       (int)value);
    }
    *host = (uint32_t)value;
    return TB_OK;
}

void fab_handle_keep(struct fab_handle *h)
{
    atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
}

void fab_handle_drop(struct fab_handle *h)
{
    if (atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) == 1) {
        fab_release(h->map);
        tb_free(h);
    }
}

static struct fab_handle *make_handle(struct fab_map *map, uint32_t index)
{
    struct fab_handle *h = tb_calloc(1, sizeof(*h));
    const struct fab_device *d = &map->s->device[index];

    if (!h)
        return NULL;
    h->map = map;
    h->index = index;
    atomic_init(&h->refs, 1);
    h->pub.node_type = TB_IBV_NODE_CA;
    h->pub.transport_type = TB_IBV_TRANSPORT_THUNDERBOLT;
    if (fab_sw(map->s, FAB_SW_present) == FAB_PRESENT_ETHERNET)
        h->pub.transport_type = TB_IBV_TRANSPORT_IB;
    snprintf(h->pub.name, sizeof(h->pub.name), "%s", d->name);
    snprintf(h->pub.dev_name, sizeof(h->pub.dev_name), "%s", d->name);
    fab_keep(map);
    return h;
}

static struct tb_ibv_device **make_list(struct fab_map *map, uint32_t host,
                                        int *count)
{
    struct fab_state *s = map->s;
    struct tb_ibv_device **list = tb_calloc(s->devices + 1, sizeof(*list));

    *count = 0;
    for (uint32_t i = 0; list && i < s->devices; i++) {
        struct fab_handle *h;
        if (s->device[i].host != host)
            continue;
        h = make_handle(map, i);
        if (!h) {
            fab_free_device_list(list);
            return NULL;
        }
        list[(*count)++] = &h->pub;
    }
    return list;
}

struct tb_ibv_device **fab_get_device_list(int *count)
{
    struct tb_ibv_device **list;
    struct fab_map *map;
    uint32_t host;
    int n = 0;

    if (count)
        *count = 0;
    if (find_fabric(&map, &host)) {
        fprintf(stderr, "tbmpi fabric: %s\n", tb_fail_note());
        errno = ENOENT;
        return NULL;
    }
    list = make_list(map, host, &n);
    fab_release(map);
    if (!list)
        errno = FAB_ENOMEM;
    else if (count)
        *count = n;
    return list;
}

void fab_free_device_list(struct tb_ibv_device **list)
{
    for (int i = 0; list && list[i]; i++)
        fab_handle_drop((struct fab_handle *)list[i]);
    tb_free(list);
}

const char *fab_get_device_name(struct tb_ibv_device *device)
{
    return device->name;
}

static uint64_t guid_of(const struct fab_device *d)
{
    union tb_ibv_gid gid;

    memset(&gid, 0, sizeof(gid));
    for (uint32_t i = 0; i < 2; i++) {
        if (fab_gid(d, i, &gid) && !fab_gid_is_ipv4(&gid))
            break;
    }
    return gid.global.interface_id;
}

uint64_t fab_get_device_guid(struct tb_ibv_device *device)
{
    struct fab_handle *h = (struct fab_handle *)device;

    return guid_of(&h->map->s->device[h->index]);
}

/* ---------------------------------------------------------------- opening */

/* Takes this process's place among the users of the fabric. */
static tb_err enrol(struct fab_map *map, uint32_t host, uint32_t *owner)
{
    tb_err err;

    TB_TRY(fab_lock(map));
    err = fab_enrol(map);
    if (!err) {
        map->s->proc[map->slot].hosts |= (uint64_t)1 << host;
        *owner = (uint32_t)map->slot + 1;
    }
    fab_unlock(map);
    return err;
}

struct tb_ibv_context *fab_open_device(struct tb_ibv_device *device)
{
    struct fab_handle *h = (struct fab_handle *)device;
    struct fab_context *c = tb_calloc(1, sizeof(*c));
    void *doorbell =
        mmap(NULL, TB_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);

    if (!c || doorbell == MAP_FAILED) {
        tb_free(c);
        errno = FAB_ENOMEM;
        return NULL;
    }
    c->handle = h;
    c->s = h->map->s;
    c->d = &c->s->device[h->index];
    c->cable = &c->s->cable[c->d->cable];
    c->doorbell = doorbell;
    if (enrol(h->map, c->d->host, &c->owner)) {
        fprintf(stderr, "tbmpi fabric: %s\n", tb_fail_note());
        munmap(doorbell, TB_PAGE);
        tb_free(c);
        errno = fab_code(h->map->s, FAB_EBUSY);
        return NULL;
    }
    c->pub.device = device;
    c->pub.cmd_fd = c->pub.async_fd = -1;
    c->pub.num_comp_vectors = 1;
    c->pub.ops.poll_cq = fab_poll_cq;
    c->pub.ops.req_notify_cq = fab_req_notify_cq;
    c->pub.ops.post_send = fab_post_send;
    c->pub.ops.post_recv = fab_post_recv;
    fab_handle_keep(h);
    return &c->pub;
}

int fab_close_device(struct tb_ibv_context *context)
{
    struct fab_context *c = (struct fab_context *)context;

    fab_empty(c);
    munmap((void *)(uintptr_t)c->doorbell, TB_PAGE);
    fab_handle_drop(c->handle);
    tb_free(c);
    return 0;
}

/* ----------------------------------------------------------------- asking */

bool fab_gid_is_ipv4(const union tb_ibv_gid *gid)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    return !memcmp(gid->raw, mapped, sizeof(mapped));
}

/* The two IPv6 link-local addresses of an interface: from its MAC address, as
 * RFC 4291 has it, and one that does not show it. */
static void link_local(const struct fab_device *d, bool secured,
                       union tb_ibv_gid *out)
{
    uint32_t number = 2 * d->cable + d->lid;
    uint8_t host = (uint8_t)d->host;
    const uint8_t from_mac[8] = {
        0x36,           0x5a, host, 0xff, 0xfe, 0x00, (uint8_t)(number >> 8),
        (uint8_t)number};

    memset(out, 0, sizeof(*out));
    out->raw[0] = 0xfe;
    out->raw[1] = 0x80;
    for (size_t i = 0; i < sizeof(from_mac); i++)
        out->raw[8 + i] = from_mac[i] ^ (secured ? 0x5b + i * 7 : 0);
}

static uint32_t gid_count(const struct fab_device *d)
{
    return d->ip ? TB_MAX(3, d->gid_index + 1) : 2;
}

bool fab_gid(const struct fab_device *d, uint32_t index, union tb_ibv_gid *out)
{
    uint32_t ip = d->ip, ipv4_at = d->gid_index;

    memset(out, 0, sizeof(*out));
    if (index >= gid_count(d))
        return false;
    if (ip && index == ipv4_at) {
        out->raw[10] = out->raw[11] = 0xff;
        memcpy(out->raw + 12, &ip, sizeof(ip));
        return true;
    }
    if (ip && index > ipv4_at)
        index--;
    if (index < 2)
        link_local(d, index == 1, out);
    return true;
}

int fab_query_device(struct tb_ibv_context *context,
                     struct tb_ibv_device_attr *out)
{
    struct fab_context *c = (struct fab_context *)context;

    memset(out, 0, sizeof(*out));
    snprintf(out->fw_ver, sizeof(out->fw_ver), "emulated");
    out->node_guid = out->sys_image_guid = guid_of(c->d);
    out->max_mr_size = MAX_MR_SIZE;
    out->page_size_cap = TB_PAGE;
    /* It advertises one queue pair more than it gives. */
    out->max_qp = (int)fab_sw(c->s, FAB_SW_qp_max) + 1;
    out->max_qp_wr = TB_IBV_FRAMES_MOST;
    out->max_sge = 1;
    out->max_cq = (int)fab_sw(c->s, FAB_SW_cq_max);
    out->max_cqe = TB_IBV_FRAMES_MOST + 1;
    out->max_mr = (int)fab_sw(c->s, FAB_SW_mr_max);
    out->max_pd = (int)fab_sw(c->s, FAB_SW_pd_max);
    out->max_pkeys = 1;
    out->phys_port_cnt = 1;
    return 0;
}

int fab_query_port(struct tb_ibv_context *context, uint8_t port,
                   struct tb_ibv_port_attr *out)
{
    struct fab_context *c = (struct fab_context *)context;
    bool up = fab_linked(c->s, c->d);

    if (port != 1)
        return fab_code(c->s, FAB_EINVAL);
    /* The struct was shorter once, and this symbol keeps to that. */
    memset(out, 0, PORT_BYTES);
    out->state = up ? TB_IBV_PORT_ACTIVE : TB_IBV_PORT_DOWN;
    out->max_mtu = out->active_mtu = TB_IBV_MTU_4096;
    out->gid_tbl_len = (int)gid_count(c->d);
    out->max_msg_sz = MAX_MSG_SIZE;
    out->pkey_tbl_len = 1;
    out->lid = (uint16_t)c->d->lid;
    out->max_vl_num = 1;
    out->active_width = 2;
    out->active_speed = 32;
    out->phys_state = up ? PHYS_LINK_UP : PHYS_POLLING;
    /* What Thunderbolt's number is no source tells. */
    out->link_layer = fab_sw(c->s, FAB_SW_present) == FAB_PRESENT_ETHERNET
                          ? TB_IBV_LINK_LAYER_ETHERNET
                          : (uint8_t)TB_IBV_TRANSPORT_THUNDERBOLT;
    return 0;
}

int fab_query_gid(struct tb_ibv_context *context, uint8_t port, int index,
                  union tb_ibv_gid *out)
{
    struct fab_context *c = (struct fab_context *)context;

    if (port == 1 && index >= 0 && fab_gid(c->d, (uint32_t)index, out))
        return 0;
    errno = fab_code(c->s, FAB_EINVAL);
    return -1;
}

int fab_query_pkey(struct tb_ibv_context *context, uint8_t port, int index,
                   uint16_t *out)
{
    struct fab_context *c = (struct fab_context *)context;

    if (port == 1 && !index) {
        *out = 0xffff;
        return 0;
    }
    errno = fab_code(c->s, FAB_EINVAL);
    return -1;
}
