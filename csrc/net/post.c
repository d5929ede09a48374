/* SPDX-License-Identifier: MIT */
/* Messages over sockets: see post.h. */
#include "net/post.h"

#define MAGIC 0x4254
#define IN_ROOM (2 * (TB_POST_MOST + sizeof(struct tb_post_head)))
#define OUT_ROOM 65536
#define DEAD_AFTER_S                                        \
    2 /* no acknowledgement from the other machine's system \
       */

tb_err tb_post_open(struct tb_post *post, int fd)
{
    struct tb_post p = {.fd = -1};
    tb_err err = TB_OK;

    p.in = tb_alloc(IN_ROOM);
    p.out = tb_alloc(OUT_ROOM);
    if (!p.in || !p.out)
        err = tb_fail(TB_ERR_NO_MEM, "no memory for a socket's messages");
    if (!err)
        err = tb_stream_prepare(fd, DEAD_AFTER_S);
    if (err)
        tb_post_close(&p);
    else
        p.fd = fd;
    *post = p;
    return err;
}

void tb_post_close(struct tb_post *post)
{
    if (post->fd >= 0) {
        tb_post_flush(post);
        tb_stream_close(post->fd);
    }
    tb_free(post->in);
    tb_free(post->out);
    *post = (struct tb_post){.fd = -1, .ended = true, .deaf = true};
}

void tb_post_flush(struct tb_post *post)
{
    size_t done = 0;

    if (!post->out_used)
        return;
    while (done < post->out_used && !post->deaf) {
        long n =
            tb_stream_write(post->fd, post->out + done, post->out_used - done);
        if (n < 0)
            post->deaf = true; /* what was said before can still be read */
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    post->out_used -= done;
    memmove(post->out, post->out + done, post->out_used);
}

tb_err tb_post_send(struct tb_post *post, unsigned kind, const void *data,
                    size_t bytes)
{
    struct tb_post_head head = {(uint32_t)bytes, (uint16_t)kind, MAGIC};

    if (post->ended || post->deaf)
        return TB_ERR_LOST;
    if (post->out_used + sizeof(head) + bytes > OUT_ROOM)
        return TB_ERR_AGAIN;
    memcpy(post->out + post->out_used, &head, sizeof(head));
    post->out_used += sizeof(head);
    if (bytes)
        memcpy(post->out + post->out_used, data, bytes);
    post->out_used += bytes;
    tb_post_flush(post);
    return post->deaf ? TB_ERR_LOST : TB_OK;
}

/* The first message that has not been handed out, if it is complete. */
static const void *take(struct tb_post *post, unsigned *kind, size_t *bytes)
{
    const char *p = post->in + post->in_done;
    size_t have = post->in_used - post->in_done;
    struct tb_post_head head;

    if (have < sizeof(head))
        return NULL;
    memcpy(&head, p, sizeof(head));
    if (head.magic != MAGIC || head.bytes > TB_POST_MOST) {
        post->ended = true;
        return NULL;
    }
    if (have < sizeof(head) + head.bytes)
        return NULL;
    post->in_done += sizeof(head) + head.bytes;
    *kind = head.kind;
    *bytes = head.bytes;
    return p + sizeof(head);
}

const void *tb_post_next(struct tb_post *post, unsigned *kind, size_t *bytes)
{
    const void *message;
    long n;

    if (post->fd < 0)
        return NULL;
    message = take(post, kind, bytes);
    if (message || post->ended)
        return message;
    memmove(post->in, post->in + post->in_done, post->in_used - post->in_done);
    post->in_used -= post->in_done;
    post->in_done = 0;
    n = tb_stream_read(post->fd, post->in + post->in_used,
                       IN_ROOM - post->in_used);
    if (n < 0)
        post->ended = true;
    if (n <= 0)
        return NULL;
    post->in_used += (size_t)n;
    return take(post, kind, bytes);
}
