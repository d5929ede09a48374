/* SPDX-License-Identifier: MIT */
/*
 * Entry points of rdma-core's libibverbs that Apple's library has not. They
 * are for programs that are linked with libibverbs and have this library in
 * front of it: with a context of ours, the real ones would look for fields
 * that it does not have. Not built for macOS.
 */
#include "fabric/objects.h"

#include <sys/types.h>

struct gid_entry {
    union tb_ibv_gid gid;
    uint32_t index;
    uint32_t port;
    uint32_t type;
    uint32_t interface;
};

#define GID_ROCE_V2 2       /* the type of a gid_entry */
#define GID_SYSFS_ROCE_V2 1 /* and of query_gid_type */

FAB_VERB(int, query_gid_type, struct tb_ibv_context *context, uint8_t port,
         unsigned index, int *type);
FAB_VERB(int, get_device_index, struct tb_ibv_device *device);
FAB_VERB(int, get_pkey_index, struct tb_ibv_context *context, uint8_t port,
         uint16_t pkey);
FAB_VERB(int, get_async_event, struct tb_ibv_context *context, void *event);
FAB_VERB(int, get_cq_event, struct tb_ibv_comp_channel *channel,
         struct tb_ibv_cq **cq, void **cq_context);
FAB_VERB(void, ack_cq_events, struct tb_ibv_cq *cq, unsigned count);
FAB_VERB(int, resize_cq, struct tb_ibv_cq *cq, int depth);
FAB_VERB(int, rereg_mr, struct tb_ibv_mr *mr, int flags, struct tb_ibv_pd *pd,
         void *addr, size_t length, int access);
FAB_VERB(void *, reg_dmabuf_mr, struct tb_ibv_pd *pd, uint64_t offset,
         size_t length, uint64_t iova, int fd, int access);
FAB_VERB(void *, create_ah, struct tb_ibv_pd *pd, void *attr);
FAB_VERB(void *, create_ah_from_wc, struct tb_ibv_pd *pd, struct tb_ibv_wc *wc,
         void *grh, uint8_t port);
FAB_VERB(void *, create_srq, struct tb_ibv_pd *pd, void *attr);
FAB_VERB(int, attach_mcast, struct tb_ibv_qp *qp, const void *gid,
         uint16_t lid);
FAB_VERB(int, detach_mcast, struct tb_ibv_qp *qp, const void *gid,
         uint16_t lid);
FAB_VERB(void *, qp_to_qp_ex, struct tb_ibv_qp *qp);
FAB_VERB(int, query_ece, struct tb_ibv_qp *qp, void *ece);
FAB_VERB(int, set_ece, struct tb_ibv_qp *qp, void *ece);
FAB_VERB(int, query_qp_data_in_order, struct tb_ibv_qp *qp, int opcode,
         uint32_t flags);

__attribute__((visibility("default"))) int
_ibv_query_gid_ex(struct tb_ibv_context *context, uint32_t port, uint32_t index,
                  struct gid_entry *out, uint32_t flags, size_t bytes);
__attribute__((visibility("default"))) ssize_t
_ibv_query_gid_table(struct tb_ibv_context *context, struct gid_entry *out,
                     size_t room, uint32_t flags, size_t bytes);

/* ------------------------------------------------------------------- GIDs */

static bool is_there(const union tb_ibv_gid *gid)
{
    return gid->raw[0] | gid->raw[10];
}

int fab_query_gid_type(struct tb_ibv_context *context, uint8_t port,
                       unsigned index, int *type)
{
    struct fab_context *c = (struct fab_context *)context;
    union tb_ibv_gid gid;

    if (port != 1 || !fab_gid(c->d, index, &gid)) {
        errno = EINVAL;
        return -1;
    }
    *type = GID_SYSFS_ROCE_V2;
    return 0;
}

int _ibv_query_gid_ex(struct tb_ibv_context *context, uint32_t port,
                      uint32_t index, struct gid_entry *out, uint32_t flags,
                      size_t bytes)
{
    struct fab_context *c = (struct fab_context *)context;
    struct gid_entry entry = {
        .index = index, .port = port, .type = GID_ROCE_V2};

    if (port != 1 || flags || bytes < sizeof(entry) ||
        !fab_gid(c->d, index, &entry.gid))
        return EINVAL;
    if (!is_there(&entry.gid))
        return ENODATA;
    memset(out, 0, bytes);
    memcpy(out, &entry, sizeof(entry));
    return 0;
}

ssize_t _ibv_query_gid_table(struct tb_ibv_context *context,
                             struct gid_entry *out, size_t room, uint32_t flags,
                             size_t bytes)
{
    struct fab_context *c = (struct fab_context *)context;
    union tb_ibv_gid gid;
    size_t n = 0;

    for (uint32_t i = 0; n < room && fab_gid(c->d, i, &gid); i++) {
        struct gid_entry *to = (struct gid_entry *)((char *)out + n * bytes);
        if (!is_there(&gid))
            continue;
        if (_ibv_query_gid_ex(context, 1, i, to, flags, bytes))
            return -EINVAL;
        n++;
    }
    return (ssize_t)n;
}

/* --------------------------------------------------------- simple answers */

int fab_get_device_index(struct tb_ibv_device *device)
{
    (void)device;
    return -1;
}

int fab_get_pkey_index(struct tb_ibv_context *context, uint8_t port,
                       uint16_t pkey)
{
    (void)context;
    return port == 1 && pkey == 0xffff ? 0 : -1;
}

void *fab_qp_to_qp_ex(struct tb_ibv_qp *qp)
{
    (void)qp;
    return NULL;
}

int fab_query_qp_data_in_order(struct tb_ibv_qp *qp, int opcode, uint32_t flags)
{
    (void)qp, (void)opcode, (void)flags;
    return 0;
}

void fab_ack_cq_events(struct tb_ibv_cq *cq, unsigned count)
{
    (void)cq, (void)count;
}

/* ---------------------------------------------------------- what is refused */

static void *refuse(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static int fail(void)
{
    errno = EOPNOTSUPP;
    return -1;
}

int fab_get_async_event(struct tb_ibv_context *context, void *event)
{
    (void)context, (void)event;
    return fail();
}

int fab_get_cq_event(struct tb_ibv_comp_channel *channel, struct tb_ibv_cq **cq,
                     void **cq_context)
{
    (void)channel, (void)cq, (void)cq_context;
    return fail();
}

int fab_resize_cq(struct tb_ibv_cq *cq, int depth)
{
    (void)cq, (void)depth;
    return EOPNOTSUPP;
}

int fab_rereg_mr(struct tb_ibv_mr *mr, int flags, struct tb_ibv_pd *pd,
                 void *addr, size_t length, int access)
{
    (void)mr, (void)flags, (void)pd, (void)addr, (void)length, (void)access;
    return fail();
}

void *fab_reg_dmabuf_mr(struct tb_ibv_pd *pd, uint64_t offset, size_t length,
                        uint64_t iova, int fd, int access)
{
    (void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
    return refuse();
}

void *fab_create_ah(struct tb_ibv_pd *pd, void *attr)
{
    (void)pd, (void)attr;
    return refuse();
}

void *fab_create_ah_from_wc(struct tb_ibv_pd *pd, struct tb_ibv_wc *wc,
                            void *grh, uint8_t port)
{
    (void)pd, (void)wc, (void)grh, (void)port;
    return refuse();
}

void *fab_create_srq(struct tb_ibv_pd *pd, void *attr)
{
    (void)pd, (void)attr;
    return refuse();
}

int fab_attach_mcast(struct tb_ibv_qp *qp, const void *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

int fab_detach_mcast(struct tb_ibv_qp *qp, const void *gid, uint16_t lid)
{
    (void)qp, (void)gid, (void)lid;
    return EOPNOTSUPP;
}

int fab_query_ece(struct tb_ibv_qp *qp, void *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}

int fab_set_ece(struct tb_ibv_qp *qp, void *ece)
{
    (void)qp, (void)ece;
    return EOPNOTSUPP;
}
