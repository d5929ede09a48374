/* SPDX-License-Identifier: MIT */
/*
 * What goes on a wire, and nothing else does. Integers are little-endian, as
 * all machines here are; every struct is free of padding and starts with
 * struct tb_base.
 *
 *   EAGER    envelope, data                     sender -> receiver, ordered
 *   RTS      envelope, where the data lies      sender -> receiver, ordered
 *   CTS      send me the data from here on      receiver -> sender
 *   DATA     a fragment of it                   sender -> receiver, any order
 *   FIN      I have it all; or: it is matched   receiver -> sender
 *   CREDIT   nothing but the base               either way
 *   CANCEL   give that envelope back            sender -> receiver
 *   RECALL   whether it could be given back     receiver -> sender
 */
#ifndef TB_PACKET_H
#define TB_PACKET_H

#include "net/net.h"

enum tb_packet_kind {
    TB_PACKET_EAGER = 1,
    TB_PACKET_RTS,
    TB_PACKET_CTS,
    TB_PACKET_DATA,
    TB_PACKET_FIN,
    TB_PACKET_CREDIT,
    TB_PACKET_CANCEL,
    TB_PACKET_RECALL
};

#define TB_FLAG_SYNC 1 /* EAGER: `id` follows the envelope, answer with FIN */
#define TB_FLAG_OK 2   /* RECALL: it was given back */

struct tb_base {
    struct tb_hop hop;
    uint8_t kind;
    uint8_t flags;
    uint16_t spare;
    uint32_t credit; /* eager units from dest that origin has consumed, ever */
    uint32_t seq;    /* envelopes: number from origin to dest; else 0 */
};

struct tb_envelope {
    struct tb_base base;
    uint64_t context;
    int32_t source; /* rank of the sender within the context */
    int32_t tag;
};

/* Request numbers: `id` names the addressee's request, `from` the sender's. */
struct tb_sync {
    struct tb_envelope envelope;
    uint32_t from;
    uint32_t spare;
};

struct tb_rts {
    struct tb_envelope envelope;
    uint64_t bytes;
    uint64_t address; /* of the data in the sender's memory; 0: scattered */
    uint32_t from;
    uint32_t spare;
};

struct tb_cts {
    struct tb_base base;
    uint32_t id;
    uint32_t from;
    uint64_t offset; /* of the first byte wanted */
    uint64_t end;    /* one past the last */
};

struct tb_data {
    struct tb_base base;
    uint32_t id;
    uint32_t spare;
    uint64_t offset;
};

struct tb_fin {
    struct tb_base base;
    uint32_t id;
    uint32_t spare;
};

struct tb_cancel {
    struct tb_base base; /* seq: of the envelope wanted back */
    uint32_t from;
    uint32_t spare;
};

_Static_assert(sizeof(struct tb_base) == 16, "no padding");
_Static_assert(sizeof(struct tb_envelope) == 32, "no padding");
_Static_assert(sizeof(struct tb_rts) == 56, "no padding");
_Static_assert(sizeof(struct tb_cts) == 40, "no padding");
_Static_assert(sizeof(struct tb_data) == 32, "no padding");

/* Longest control packet: what an outbox entry holds. */
#define TB_PACKET_SMALL 64

#endif
