/* SPDX-License-Identifier: MIT */
/*
 * post: messages over a connected stream socket, without ever blocking. A
 * message is a kind and up to TB_POST_MOST bytes; it arrives whole, once and in
 * order. Both ends are of the same job; all the same nothing that arrives is
 * believed unchecked, and nonsense ends the connection.
 */
#ifndef TB_POST_H
#define TB_POST_H

#include "base/base.h"

#define TB_POST_MOST 8192

/* Before each message, little-endian. */
struct tb_post_head {
    uint32_t bytes; /* behind the head */
    uint16_t kind;
    uint16_t magic;
};

struct tb_post {
    int fd;
    bool ended; /* nothing more will come: closed there, or broken */
    bool deaf;  /* what is written goes nowhere */
    char *in, *out;
    size_t in_used; /* bytes read */
    size_t in_done; /* of these, handed to the caller */
    size_t out_used;
};

/* Takes over `fd`, on success. */
tb_err tb_post_open(struct tb_post *post, int fd);
void tb_post_close(struct tb_post *post);

/* Queues a message and writes what the socket takes. TB_ERR_AGAIN: the queue
 * is full; TB_ERR_LOST: nobody reads it any more. */
tb_err tb_post_send(struct tb_post *post, unsigned kind, const void *data,
                    size_t bytes);

/* Writes what is queued, as far as the socket takes it. */
void tb_post_flush(struct tb_post *post);

/* The next message, valid until the next call; NULL: none yet, or `ended`. */
const void *tb_post_next(struct tb_post *post, unsigned *kind, size_t *bytes);

#endif
