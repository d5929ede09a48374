/* SPDX-License-Identifier: MIT */
/*
 * The verbs ABI: the part of it that a user of UC queue pairs needs, in
 * rdma-core's layout, which Apple's librdma follows. All names carry a prefix,
 * so that <infiniband/verbs.h> may stand beside this header; fields keep their
 * names. Where Apple's SDK has that header, the prefixed names are the SDK's
 * own types and constants, and its layout counts; everywhere else they are
 * declared here (tests/unit/verbs_abi.c compares them with rdma-core's).
 *
 * Control calls (ibv_open_device and so on) are exported symbols, found by
 * dlsym. The data path is not: it goes through context->ops, see the end.
 */
#ifndef TB_VERBS_ABI_H
#define TB_VERBS_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__APPLE__) && defined(__has_include)
#if __has_include(<infiniband/verbs.h>)
#define TB_VERBS_SDK 1
#endif
#endif

#define TB_IBV_FRAME 4096       /* bytes; Apple counts queue depth in these */
#define TB_IBV_FRAMES_MOST 4095 /* deepest queue, and longest message */

#ifdef TB_VERBS_SDK

#include <infiniband/verbs.h>

#define tb_ibv_device ibv_device
#define tb_ibv_context ibv_context
#define tb_ibv_context_ops ibv_context_ops
#define tb_ibv_pd ibv_pd
#define tb_ibv_mr ibv_mr
#define tb_ibv_cq ibv_cq
#define tb_ibv_qp ibv_qp
#define tb_ibv_srq ibv_srq
#define tb_ibv_comp_channel ibv_comp_channel
#define tb_ibv_gid ibv_gid
#define tb_ibv_device_attr ibv_device_attr
#define tb_ibv_port_attr ibv_port_attr
#define tb_ibv_global_route ibv_global_route
#define tb_ibv_ah_attr ibv_ah_attr
#define tb_ibv_qp_cap ibv_qp_cap
#define tb_ibv_qp_init_attr ibv_qp_init_attr
#define tb_ibv_qp_attr ibv_qp_attr
#define tb_ibv_sge ibv_sge
#define tb_ibv_send_wr ibv_send_wr
#define tb_ibv_recv_wr ibv_recv_wr
#define tb_ibv_wc ibv_wc
#define tb_ibv_node_type ibv_node_type
#define tb_ibv_transport_type ibv_transport_type
#define tb_ibv_mtu ibv_mtu
#define tb_ibv_port_state ibv_port_state
#define tb_ibv_qp_type ibv_qp_type
#define tb_ibv_qp_state ibv_qp_state
#define tb_ibv_mig_state ibv_mig_state
#define tb_ibv_wr_opcode ibv_wr_opcode
#define tb_ibv_wc_status ibv_wc_status
#define tb_ibv_wc_opcode ibv_wc_opcode

#define TB_IBV_NODE_CA IBV_NODE_CA
#define TB_IBV_TRANSPORT_IB IBV_TRANSPORT_IB
#define TB_IBV_MTU_1024 IBV_MTU_1024
#define TB_IBV_MTU_4096 IBV_MTU_4096
#define TB_IBV_PORT_DOWN IBV_PORT_DOWN
#define TB_IBV_PORT_ACTIVE IBV_PORT_ACTIVE
#define TB_IBV_LINK_LAYER_UNSPECIFIED IBV_LINK_LAYER_UNSPECIFIED
#define TB_IBV_LINK_LAYER_INFINIBAND IBV_LINK_LAYER_INFINIBAND
#define TB_IBV_LINK_LAYER_ETHERNET IBV_LINK_LAYER_ETHERNET
#define TB_IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_LOCAL_WRITE
#define TB_IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_WRITE
#define TB_IBV_ACCESS_REMOTE_READ IBV_ACCESS_REMOTE_READ
#define TB_IBV_QPT_RC IBV_QPT_RC
#define TB_IBV_QPT_UC IBV_QPT_UC
#define TB_IBV_QPT_UD IBV_QPT_UD
#define TB_IBV_QPS_RESET IBV_QPS_RESET
#define TB_IBV_QPS_INIT IBV_QPS_INIT
#define TB_IBV_QPS_RTR IBV_QPS_RTR
#define TB_IBV_QPS_RTS IBV_QPS_RTS
#define TB_IBV_QPS_ERR IBV_QPS_ERR
#define TB_IBV_QP_STATE IBV_QP_STATE
#define TB_IBV_QP_ACCESS_FLAGS IBV_QP_ACCESS_FLAGS
#define TB_IBV_QP_PKEY_INDEX IBV_QP_PKEY_INDEX
#define TB_IBV_QP_PORT IBV_QP_PORT
#define TB_IBV_QP_AV IBV_QP_AV
#define TB_IBV_QP_PATH_MTU IBV_QP_PATH_MTU
#define TB_IBV_QP_RQ_PSN IBV_QP_RQ_PSN
#define TB_IBV_QP_SQ_PSN IBV_QP_SQ_PSN
#define TB_IBV_QP_CAP IBV_QP_CAP
#define TB_IBV_QP_DEST_QPN IBV_QP_DEST_QPN
#define TB_IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE
#define TB_IBV_WR_SEND IBV_WR_SEND
#define TB_IBV_SEND_SIGNALED IBV_SEND_SIGNALED
#define TB_IBV_SEND_INLINE IBV_SEND_INLINE
#define TB_IBV_WC_SUCCESS IBV_WC_SUCCESS
#define TB_IBV_WC_LOC_LEN_ERR IBV_WC_LOC_LEN_ERR
#define TB_IBV_WC_LOC_QP_OP_ERR IBV_WC_LOC_QP_OP_ERR
#define TB_IBV_WC_LOC_PROT_ERR IBV_WC_LOC_PROT_ERR
#define TB_IBV_WC_WR_FLUSH_ERR IBV_WC_WR_FLUSH_ERR
#define TB_IBV_WC_GENERAL_ERR IBV_WC_GENERAL_ERR
#define TB_IBV_WC_SEND IBV_WC_SEND
#define TB_IBV_WC_RECV IBV_WC_RECV
/* Apple's own; what its header calls it no source tells. */
#define TB_IBV_TRANSPORT_THUNDERBOLT ((enum ibv_transport_type)100)

#else

enum tb_ibv_node_type { TB_IBV_NODE_CA = 1 };

enum tb_ibv_transport_type {
    TB_IBV_TRANSPORT_IB = 0,
    TB_IBV_TRANSPORT_THUNDERBOLT = 100 /* Apple's own */
};

enum tb_ibv_mtu { TB_IBV_MTU_1024 = 3, TB_IBV_MTU_4096 = 5 };

enum tb_ibv_port_state { TB_IBV_PORT_DOWN = 1, TB_IBV_PORT_ACTIVE = 4 };

enum { /* port_attr.link_layer */
       TB_IBV_LINK_LAYER_UNSPECIFIED = 0,
       TB_IBV_LINK_LAYER_INFINIBAND = 1,
       TB_IBV_LINK_LAYER_ETHERNET = 2
};

enum { /* of memory regions, and qp_attr.qp_access_flags */
       TB_IBV_ACCESS_LOCAL_WRITE = 1,
       TB_IBV_ACCESS_REMOTE_WRITE = 2,
       TB_IBV_ACCESS_REMOTE_READ = 4
};

enum tb_ibv_qp_type { TB_IBV_QPT_RC = 2, TB_IBV_QPT_UC = 3, TB_IBV_QPT_UD = 4 };

enum tb_ibv_qp_state {
    TB_IBV_QPS_RESET,
    TB_IBV_QPS_INIT,
    TB_IBV_QPS_RTR,
    TB_IBV_QPS_RTS,
    TB_IBV_QPS_ERR = 6
};

enum { /* the mask of modify_qp and query_qp */
       TB_IBV_QP_STATE = 1 << 0,
       TB_IBV_QP_ACCESS_FLAGS = 1 << 3,
       TB_IBV_QP_PKEY_INDEX = 1 << 4,
       TB_IBV_QP_PORT = 1 << 5,
       TB_IBV_QP_AV = 1 << 7,
       TB_IBV_QP_PATH_MTU = 1 << 8,
       TB_IBV_QP_RQ_PSN = 1 << 12,
       TB_IBV_QP_SQ_PSN = 1 << 16,
       TB_IBV_QP_CAP = 1 << 19,
       TB_IBV_QP_DEST_QPN = 1 << 20
};

enum tb_ibv_mig_state { TB_IBV_MIG_MIGRATED };

enum tb_ibv_wr_opcode { TB_IBV_WR_RDMA_WRITE = 0, TB_IBV_WR_SEND = 2 };

enum { /* send_wr.send_flags */
       TB_IBV_SEND_SIGNALED = 1 << 1,
       TB_IBV_SEND_INLINE = 1 << 3
};

enum tb_ibv_wc_status {
    TB_IBV_WC_SUCCESS = 0,
    TB_IBV_WC_LOC_LEN_ERR = 1,
    TB_IBV_WC_LOC_QP_OP_ERR = 2,
    TB_IBV_WC_LOC_PROT_ERR = 4,
    TB_IBV_WC_WR_FLUSH_ERR = 5,
    TB_IBV_WC_GENERAL_ERR = 21
};

enum tb_ibv_wc_opcode { TB_IBV_WC_SEND = 0, TB_IBV_WC_RECV = 128 };

struct tb_ibv_context;
struct tb_ibv_srq; /* never used: NULL */

/* Both numbers in network byte order. */
union tb_ibv_gid {
    uint8_t raw[16];
    struct {
        uint64_t subnet_prefix;
        uint64_t interface_id;
    } global;
};

struct tb_ibv_device {
    void *ops[2]; /* the provider's */
    enum tb_ibv_node_type node_type;
    enum tb_ibv_transport_type transport_type;
    char name[64];
    char dev_name[64];
    char dev_path[256];
    char ibdev_path[256];
};

struct tb_ibv_device_attr {
    char fw_ver[64];
    uint64_t node_guid; /* network byte order */
    uint64_t sys_image_guid;
    uint64_t max_mr_size;
    uint64_t page_size_cap;
    uint32_t vendor_id;
    uint32_t vendor_part_id;
    uint32_t hw_ver;
    int max_qp;
    int max_qp_wr;
    unsigned int device_cap_flags;
    int max_sge;
    int max_sge_rd;
    int max_cq;
    int max_cqe;
    int max_mr;
    int max_pd;
    int max_qp_rd_atom;
    int max_ee_rd_atom;
    int max_res_rd_atom;
    int max_qp_init_rd_atom;
    int max_ee_init_rd_atom;
    int atomic_cap; /* 0: none */
    int max_ee;
    int max_rdd;
    int max_mw;
    int max_raw_ipv6_qp;
    int max_raw_ethy_qp;
    int max_mcast_grp;
    int max_mcast_qp_attach;
    int max_total_mcast_qp_attach;
    int max_ah;
    int max_fmr;
    int max_map_per_fmr;
    int max_srq;
    int max_srq_wr;
    int max_srq_sge;
    uint16_t max_pkeys;
    uint8_t local_ca_ack_delay;
    uint8_t phys_port_cnt;
};

/* The exported ibv_query_port fills the first 48 bytes only, all but
 * port_cap_flags2: the struct ended there once. */
struct tb_ibv_port_attr {
    enum tb_ibv_port_state state;
    enum tb_ibv_mtu max_mtu;
    enum tb_ibv_mtu active_mtu;
    int gid_tbl_len;
    uint32_t port_cap_flags;
    uint32_t max_msg_sz;
    uint32_t bad_pkey_cntr;
    uint32_t qkey_viol_cntr;
    uint16_t pkey_tbl_len;
    uint16_t lid;
    uint16_t sm_lid;
    uint8_t lmc;
    uint8_t max_vl_num;
    uint8_t sm_sl;
    uint8_t subnet_timeout;
    uint8_t init_type_reply;
    uint8_t active_width;
    uint8_t active_speed;
    uint8_t phys_state;
    uint8_t link_layer;
    uint8_t flags;
    uint16_t port_cap_flags2;
};

struct tb_ibv_pd {
    struct tb_ibv_context *context;
    uint32_t handle;
};

struct tb_ibv_mr {
    struct tb_ibv_context *context;
    struct tb_ibv_pd *pd;
    void *addr;
    size_t length;
    uint32_t handle;
    uint32_t lkey;
    uint32_t rkey;
};

struct tb_ibv_comp_channel {
    struct tb_ibv_context *context;
    int fd;
    int refcnt;
};

struct tb_ibv_cq {
    struct tb_ibv_context *context;
    struct tb_ibv_comp_channel *channel;
    void *cq_context;
    uint32_t handle;
    int cqe;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t comp_events_completed;
    uint32_t async_events_completed;
};

struct tb_ibv_qp {
    struct tb_ibv_context *context;
    void *qp_context;
    struct tb_ibv_pd *pd;
    struct tb_ibv_cq *send_cq;
    struct tb_ibv_cq *recv_cq;
    struct tb_ibv_srq *srq;
    uint32_t handle;
    uint32_t qp_num;
    enum tb_ibv_qp_state state;
    enum tb_ibv_qp_type qp_type;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t events_completed;
};

struct tb_ibv_global_route {
    union tb_ibv_gid dgid;
    uint32_t flow_label;
    uint8_t sgid_index;
    uint8_t hop_limit;
    uint8_t traffic_class;
};

struct tb_ibv_ah_attr {
    struct tb_ibv_global_route grh;
    uint16_t dlid;
    uint8_t sl;
    uint8_t src_path_bits;
    uint8_t static_rate;
    uint8_t is_global;
    uint8_t port_num;
};

struct tb_ibv_qp_cap {
    uint32_t max_send_wr; /* Apple: frames */
    uint32_t max_recv_wr;
    uint32_t max_send_sge;
    uint32_t max_recv_sge;
    uint32_t max_inline_data;
};

struct tb_ibv_qp_init_attr {
    void *qp_context;
    struct tb_ibv_cq *send_cq;
    struct tb_ibv_cq *recv_cq;
    struct tb_ibv_srq *srq;
    struct tb_ibv_qp_cap cap;
    enum tb_ibv_qp_type qp_type;
    int sq_sig_all;
};

struct tb_ibv_qp_attr {
    enum tb_ibv_qp_state qp_state;
    enum tb_ibv_qp_state cur_qp_state;
    enum tb_ibv_mtu path_mtu;
    enum tb_ibv_mig_state path_mig_state;
    uint32_t qkey;
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint32_t dest_qp_num;
    unsigned int qp_access_flags;
    struct tb_ibv_qp_cap cap;
    struct tb_ibv_ah_attr ah_attr;
    struct tb_ibv_ah_attr alt_ah_attr;
    uint16_t pkey_index;
    uint16_t alt_pkey_index;
    uint8_t en_sqd_async_notify;
    uint8_t sq_draining;
    uint8_t max_rd_atomic;
    uint8_t max_dest_rd_atomic;
    uint8_t min_rnr_timer;
    uint8_t port_num;
    uint8_t timeout;
    uint8_t retry_cnt;
    uint8_t rnr_retry;
    uint8_t alt_port_num;
    uint8_t alt_timeout;
    uint32_t rate_limit;
};

struct tb_ibv_sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

struct tb_ibv_send_wr {
    uint64_t wr_id;
    struct tb_ibv_send_wr *next;
    struct tb_ibv_sge *sg_list;
    int num_sge;
    enum tb_ibv_wr_opcode opcode;
    unsigned int send_flags;
    uint32_t imm_data; /* this and all below: not for SEND */
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        uint64_t unused[4];
    } wr;
    uint32_t unused_xrc;
    uint64_t unused_more[6];
};

struct tb_ibv_recv_wr {
    uint64_t wr_id;
    struct tb_ibv_recv_wr *next;
    struct tb_ibv_sge *sg_list;
    int num_sge;
};

struct tb_ibv_wc {
    uint64_t wr_id;
    enum tb_ibv_wc_status status;
    enum tb_ibv_wc_opcode opcode; /* undefined unless status is SUCCESS */
    uint32_t vendor_err;
    uint32_t byte_len; /* of a RECV */
    uint32_t imm_data;
    uint32_t qp_num;
    uint32_t src_qp;
    unsigned int wc_flags;
    uint16_t pkey_index;
    uint16_t slid;
    uint8_t sl;
    uint8_t dlid_path_bits;
};

struct tb_ibv_context_ops {
    void *unused_1[11];
    int (*poll_cq)(struct tb_ibv_cq *cq, int room, struct tb_ibv_wc *out);
    int (*req_notify_cq)(struct tb_ibv_cq *cq, int solicited_only);
    void *unused_2[12];
    int (*post_send)(struct tb_ibv_qp *qp, struct tb_ibv_send_wr *list,
                     struct tb_ibv_send_wr **bad);
    int (*post_recv)(struct tb_ibv_qp *qp, struct tb_ibv_recv_wr *list,
                     struct tb_ibv_recv_wr **bad);
    void *unused_3[5];
};

struct tb_ibv_context {
    struct tb_ibv_device *device;
    struct tb_ibv_context_ops ops;
    int cmd_fd;
    int async_fd;
    int num_comp_vectors;
    pthread_mutex_t mutex;
    void *abi_compat; /* all ones: an extended context surrounds this one */
};

#endif

/* The data path: no system call, never blocks. poll returns the number of
 * completions, negative on error; a post returns 0 or an error number, whose
 * sign no source settles, and may leave *bad untouched. */
static inline int tb_ibv_poll_cq(struct tb_ibv_cq *cq, int room,
                                 struct tb_ibv_wc *out)
{
    return cq->context->ops.poll_cq(cq, room, out);
}

static inline int tb_ibv_post_send(struct tb_ibv_qp *qp,
                                   struct tb_ibv_send_wr *list,
                                   struct tb_ibv_send_wr **bad)
{
    return qp->context->ops.post_send(qp, list, bad);
}

static inline int tb_ibv_post_recv(struct tb_ibv_qp *qp,
                                   struct tb_ibv_recv_wr *list,
                                   struct tb_ibv_recv_wr **bad)
{
    return qp->context->ops.post_recv(qp, list, bad);
}

#endif
