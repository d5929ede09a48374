/* SPDX-License-Identifier: MIT */
/*
 * pace: which of two ways of moving a long message is quicker, learnt from
 * the messages themselves. One way is a pull, a single copy that costs a
 * system call; the other is packets, two copies through shared lines that
 * overlap. Which one wins depends on how far apart two processors' caches
 * are, and so on where the system happens to run the processes: factors of
 * five either way were seen on one machine within an hour.
 *
 * Of each way the shortest time of late is kept, in nanoseconds a KiB: a
 * minimum that every sample lets rise by a sixteenth. So a page fault or a
 * lost time slice changes nothing, and a lasting change is believed after
 * some ten samples. The slower way gets another chance after 16 messages of
 * a length, for a few in a row since the first of them finds cold caches, and
 * then after twice as many each time, as long as it stays the slower one.
 *
 * Pure: no clock, no memory, no system call.
 */
#ifndef TB_PACE_H
#define TB_PACE_H

#include "base/base.h"

#define TB_PACE_LEAST 4096    /* shorter ones are not compared */
#define TB_PACE_CLASSES 12    /* powers of two from there on */
#define TB_PACE_TRIAL 3       /* messages a chance */
#define TB_PACE_GAP 16        /* messages to the first chance; … */
#define TB_PACE_GAP_MOST 1024 /* … and between two at most */

/* Times in ns a KiB; 0: not known yet. */
struct tb_pace {
    float write; /* into a packet, by the sender */
    float read;  /* out of it, by the receiver */
    float pull[TB_PACE_CLASSES];
    bool pulls[TB_PACE_CLASSES];    /* what the last comparison said */
    uint16_t turn[TB_PACE_CLASSES]; /* messages since then or since a chance */
    uint16_t gap[TB_PACE_CLASSES];  /* messages to the next chance */
    size_t packet_bytes;            /* longest packet */
    float patience; /* how much slower a pull may be and still be taken */
};

static inline unsigned tb_pace_class(size_t bytes)
{
    unsigned class = 0;

    while (class + 1 < TB_PACE_CLASSES && bytes >= (size_t)2 * TB_PACE_LEAST
                                                       << class)
        class ++;
    return class;
}

static inline void tb_pace_note(float *pace, float now)
{
    *pace += *pace / 16;
    if (*pace == 0 || now < *pace)
        *pace = now;
}

static inline float tb_pace_of(size_t bytes, uint64_t ns)
{
    return (float)(ns + 1) * 1024 / (float)bytes;
}

/* Of a message in packets: the slower copy, and the quicker one to the extent
 * that it does not overlap, which is one packet's. */
static inline float tb_pace_packets(const struct tb_pace *p, size_t bytes)
{
    float part = (float)TB_MIN(p->packet_bytes, bytes) / (float)bytes;

    return TB_MAX(p->write, p->read) + TB_MIN(p->write, p->read) * part;
}

/* True: pull the next message of that length. */
static inline bool tb_pace_choose(struct tb_pace *p, size_t bytes)
{
    unsigned class = tb_pace_class(bytes);
    bool pull;

    if (bytes < TB_PACE_LEAST || p->packet_bytes < TB_PACE_LEAST ||
        p->pull[class] == 0)
        return true;
    if (p->write == 0 || p->read == 0)
        return false;
    pull = p->pull[class] <= tb_pace_packets(p, bytes) * p->patience;
    if (pull != p->pulls[class] || !p->gap[class]) {
        p->pulls[class] = pull;
        p->gap[class] = TB_PACE_GAP;
        p->turn[class] = 0;
    }
    if (++p->turn[class] <= p->gap[class])
        return pull;
    if (p->turn[class] >= p->gap[class] + TB_PACE_TRIAL) {
        p->gap[class] = (uint16_t)TB_MIN(p->gap[class] * 2, TB_PACE_GAP_MOST);
        p->turn[class] = 0;
    }
    return !pull;
}

#endif
