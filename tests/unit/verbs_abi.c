/* SPDX-License-Identifier: MIT */
/* Our declaration of the verbs ABI against rdma-core's header. All of it is
 * settled when this compiles. */
#include "net/verbs_abi.h"

#include "unit/check.h"

#if defined(__has_include)
#if __has_include(<infiniband/verbs.h>)
#define HAVE_HEADER 1
#endif
#endif

#ifndef HAVE_HEADER

int main(void)
{
    SKIP("<infiniband/verbs.h> is not here (Debian: libibverbs-dev)");
}

#else

#include <infiniband/verbs.h>

/* Place and size of a field; `is` is what it is called there. */
#define SAME_AS(type, field, is)                                 \
    _Static_assert(offsetof(struct tb_##type, field) ==          \
                           offsetof(struct type, is) &&          \
                       sizeof(((struct tb_##type *)0)->field) == \
                           sizeof(((struct type *)0)->is),       \
                   #type "." #field)
#define SAME(type, field) SAME_AS(type, field, field)
#define ALIKE(type)                                                         \
    _Static_assert(sizeof(struct tb_##type) == sizeof(struct type) &&       \
                       _Alignof(struct tb_##type) == _Alignof(struct type), \
                   #type)
#define EQUAL(name) _Static_assert((int)TB_##name == (int)name, #name)

_Static_assert(sizeof(union tb_ibv_gid) == sizeof(union ibv_gid), "gid");
_Static_assert(sizeof(enum tb_ibv_qp_state) == sizeof(enum ibv_qp_state), "");

ALIKE(ibv_device);
SAME(ibv_device, node_type);
SAME(ibv_device, transport_type);
SAME(ibv_device, name);
SAME(ibv_device, dev_name);
SAME(ibv_device, dev_path);
SAME(ibv_device, ibdev_path);

ALIKE(ibv_context);
SAME(ibv_context, device);
SAME(ibv_context, ops);
SAME(ibv_context, cmd_fd);
SAME(ibv_context, async_fd);
SAME(ibv_context, num_comp_vectors);
SAME(ibv_context, mutex);
SAME(ibv_context, abi_compat);

ALIKE(ibv_context_ops);
SAME(ibv_context_ops, poll_cq);
SAME(ibv_context_ops, req_notify_cq);
SAME(ibv_context_ops, post_send);
SAME(ibv_context_ops, post_recv);

ALIKE(ibv_device_attr);
SAME(ibv_device_attr, fw_ver);
SAME(ibv_device_attr, node_guid);
SAME(ibv_device_attr, max_mr_size);
SAME(ibv_device_attr, page_size_cap);
SAME(ibv_device_attr, hw_ver);
SAME(ibv_device_attr, max_qp);
SAME(ibv_device_attr, max_qp_wr);
SAME(ibv_device_attr, device_cap_flags);
SAME(ibv_device_attr, max_sge);
SAME(ibv_device_attr, max_cq);
SAME(ibv_device_attr, max_cqe);
SAME(ibv_device_attr, max_mr);
SAME(ibv_device_attr, max_pd);
SAME(ibv_device_attr, max_qp_rd_atom);
SAME(ibv_device_attr, atomic_cap);
SAME(ibv_device_attr, max_srq);
SAME(ibv_device_attr, max_srq_sge);
SAME(ibv_device_attr, max_pkeys);
SAME(ibv_device_attr, phys_port_cnt);

ALIKE(ibv_port_attr);
SAME(ibv_port_attr, state);
SAME(ibv_port_attr, max_mtu);
SAME(ibv_port_attr, active_mtu);
SAME(ibv_port_attr, gid_tbl_len);
SAME(ibv_port_attr, max_msg_sz);
SAME(ibv_port_attr, pkey_tbl_len);
SAME(ibv_port_attr, lid);
SAME(ibv_port_attr, sm_lid);
SAME(ibv_port_attr, lmc);
SAME(ibv_port_attr, active_width);
SAME(ibv_port_attr, phys_state);
SAME(ibv_port_attr, link_layer);
SAME(ibv_port_attr, flags);
SAME(ibv_port_attr, port_cap_flags2);
_Static_assert(offsetof(struct tb_ibv_port_attr, port_cap_flags2) == 48, "");

ALIKE(ibv_pd);
SAME(ibv_pd, context);
SAME(ibv_pd, handle);

ALIKE(ibv_mr);
SAME(ibv_mr, context);
SAME(ibv_mr, pd);
SAME(ibv_mr, addr);
SAME(ibv_mr, length);
SAME(ibv_mr, lkey);
SAME(ibv_mr, rkey);

ALIKE(ibv_comp_channel);

ALIKE(ibv_cq);
SAME(ibv_cq, context);
SAME(ibv_cq, channel);
SAME(ibv_cq, cq_context);
SAME(ibv_cq, cqe);
SAME(ibv_cq, async_events_completed);

ALIKE(ibv_qp);
SAME(ibv_qp, context);
SAME(ibv_qp, qp_context);
SAME(ibv_qp, pd);
SAME(ibv_qp, send_cq);
SAME(ibv_qp, recv_cq);
SAME(ibv_qp, srq);
SAME(ibv_qp, qp_num);
SAME(ibv_qp, state);
SAME(ibv_qp, qp_type);
SAME(ibv_qp, events_completed);

ALIKE(ibv_global_route);
SAME(ibv_global_route, dgid);
SAME(ibv_global_route, sgid_index);
SAME(ibv_global_route, hop_limit);

ALIKE(ibv_ah_attr);
SAME(ibv_ah_attr, grh);
SAME(ibv_ah_attr, dlid);
SAME(ibv_ah_attr, is_global);
SAME(ibv_ah_attr, port_num);

ALIKE(ibv_qp_cap);
SAME(ibv_qp_cap, max_send_wr);
SAME(ibv_qp_cap, max_recv_wr);
SAME(ibv_qp_cap, max_send_sge);
SAME(ibv_qp_cap, max_recv_sge);
SAME(ibv_qp_cap, max_inline_data);

ALIKE(ibv_qp_init_attr);
SAME(ibv_qp_init_attr, send_cq);
SAME(ibv_qp_init_attr, recv_cq);
SAME(ibv_qp_init_attr, srq);
SAME(ibv_qp_init_attr, cap);
SAME(ibv_qp_init_attr, qp_type);
SAME(ibv_qp_init_attr, sq_sig_all);

ALIKE(ibv_qp_attr);
SAME(ibv_qp_attr, qp_state);
SAME(ibv_qp_attr, path_mtu);
SAME(ibv_qp_attr, rq_psn);
SAME(ibv_qp_attr, sq_psn);
SAME(ibv_qp_attr, dest_qp_num);
SAME(ibv_qp_attr, qp_access_flags);
SAME(ibv_qp_attr, cap);
SAME(ibv_qp_attr, ah_attr);
SAME(ibv_qp_attr, alt_ah_attr);
SAME(ibv_qp_attr, pkey_index);
SAME(ibv_qp_attr, port_num);
SAME(ibv_qp_attr, rate_limit);

ALIKE(ibv_sge);
SAME(ibv_sge, addr);
SAME(ibv_sge, length);
SAME(ibv_sge, lkey);

ALIKE(ibv_send_wr);
SAME(ibv_send_wr, wr_id);
SAME(ibv_send_wr, next);
SAME(ibv_send_wr, sg_list);
SAME(ibv_send_wr, num_sge);
SAME(ibv_send_wr, opcode);
SAME(ibv_send_wr, send_flags);
SAME(ibv_send_wr, imm_data);
SAME(ibv_send_wr, wr);
SAME(ibv_send_wr, wr.rdma.remote_addr);
SAME(ibv_send_wr, wr.rdma.rkey);
SAME_AS(ibv_send_wr, unused_xrc, qp_type);
SAME_AS(ibv_send_wr, unused_more, bind_mw);

ALIKE(ibv_recv_wr);
SAME(ibv_recv_wr, wr_id);
SAME(ibv_recv_wr, next);
SAME(ibv_recv_wr, sg_list);
SAME(ibv_recv_wr, num_sge);

ALIKE(ibv_wc);
SAME(ibv_wc, wr_id);
SAME(ibv_wc, status);
SAME(ibv_wc, opcode);
SAME(ibv_wc, vendor_err);
SAME(ibv_wc, byte_len);
SAME(ibv_wc, imm_data);
SAME(ibv_wc, qp_num);
SAME(ibv_wc, src_qp);
SAME(ibv_wc, wc_flags);
SAME(ibv_wc, pkey_index);
SAME(ibv_wc, slid);
SAME(ibv_wc, dlid_path_bits);

EQUAL(IBV_NODE_CA);
EQUAL(IBV_TRANSPORT_IB);
EQUAL(IBV_MTU_1024);
EQUAL(IBV_MTU_4096);
EQUAL(IBV_PORT_DOWN);
EQUAL(IBV_PORT_ACTIVE);
EQUAL(IBV_LINK_LAYER_UNSPECIFIED);
EQUAL(IBV_LINK_LAYER_INFINIBAND);
EQUAL(IBV_LINK_LAYER_ETHERNET);
EQUAL(IBV_ACCESS_LOCAL_WRITE);
EQUAL(IBV_ACCESS_REMOTE_WRITE);
EQUAL(IBV_ACCESS_REMOTE_READ);
EQUAL(IBV_QPT_RC);
EQUAL(IBV_QPT_UC);
EQUAL(IBV_QPT_UD);
EQUAL(IBV_QPS_RESET);
EQUAL(IBV_QPS_INIT);
EQUAL(IBV_QPS_RTR);
EQUAL(IBV_QPS_RTS);
EQUAL(IBV_QPS_ERR);
EQUAL(IBV_QP_STATE);
EQUAL(IBV_QP_ACCESS_FLAGS);
EQUAL(IBV_QP_PKEY_INDEX);
EQUAL(IBV_QP_PORT);
EQUAL(IBV_QP_AV);
EQUAL(IBV_QP_PATH_MTU);
EQUAL(IBV_QP_RQ_PSN);
EQUAL(IBV_QP_SQ_PSN);
EQUAL(IBV_QP_CAP);
EQUAL(IBV_QP_DEST_QPN);
EQUAL(IBV_WR_RDMA_WRITE);
EQUAL(IBV_WR_SEND);
EQUAL(IBV_SEND_SIGNALED);
EQUAL(IBV_SEND_INLINE);
EQUAL(IBV_WC_SUCCESS);
EQUAL(IBV_WC_LOC_LEN_ERR);
EQUAL(IBV_WC_LOC_QP_OP_ERR);
EQUAL(IBV_WC_LOC_PROT_ERR);
EQUAL(IBV_WC_WR_FLUSH_ERR);
EQUAL(IBV_WC_GENERAL_ERR);
EQUAL(IBV_WC_SEND);
EQUAL(IBV_WC_RECV);

int main(void)
{
    return 0;
}

#endif
