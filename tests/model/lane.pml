/* SPDX-License-Identifier: MIT */
/*
 * The two rings of descriptors between a rank and its router (csrc/net/relay.h)
 * on a machine with weak memory order. No counter says how full a ring is: the
 * top bit of a word says in which lap it was written, and slots are so few that
 * no ring can be full.
 *
 * The router lends slots, whose content it has written, in any number up to LENT
 * at a time; the rank looks at each, writes it anew and returns it. Once, at any
 * time, the router says that a node is lost.
 *
 * Memory: what a process stores waits in a buffer of its own and becomes visible
 * in any order, but for two stores to one place, and but for a release store,
 * which waits for all stores before it. A load that is not ordered by acquire
 * may be taken early.
 *
 * Checked: each word arrives once and in order, a slot's content is seen whole
 * by whoever the slot was handed to, no word is overwritten unread, nobody waits
 * for ever.
 *
 * larger: ROUNDS=9
 *
 * Switches that must make the check fail:
 *   PUT_RELAXED   tb_ring_put without release
 *   LOOK_RELAXED  tb_ring_look without acquire
 *   LEND_ALL      as many slots lent as a ring has words, beside LOST
 *   NO_LAP        a word stands for news whenever it is not zero
 */
#ifndef WORDS
#define WORDS 3
#endif
#ifndef ROUNDS
#define ROUNDS 7 /* loans in all */
#endif
#define SLOTS 3
#ifdef LEND_ALL
#define LENT WORDS
#else
#define LENT (WORDS - 2) /* one for LOST, one to spare */
#endif
#define BUFFER 4

#define LAP 16
#define LOST 15
#define SLOT(word) ((word & 15) - 1)

#define ROUTER 0
#define RANK 1

byte ring[2 * WORDS]; /* down, written by the router; up, by the rank */
byte content[SLOTS];
byte meant[SLOTS]; /* what the slot's last owner has written */

typedef store {
    byte at; /* in ring, or, from 2 * WORDS on, in content */
    byte value;
    bool release
};
typedef buffer {
    store pending[BUFFER];
    byte stores
};
buffer held[2];

inline put(who, a, v, rel) {
    held[who].stores < BUFFER;
    held[who].pending[held[who].stores].at = a;
    held[who].pending[held[who].stores].value = v;
    held[who].pending[held[who].stores].release = rel;
    held[who].stores++
}

/* Makes one of the stores of a process visible that may be. */
active [2] proctype memory() {
    byte who = _pid, i, j;
    bool passes;

end:
    do
    :: atomic {
        held[who].stores > 0;
        i = 0;
        do
        :: i + 1 < held[who].stores -> i++
        :: break
        od;
        passes = !(held[who].pending[i].release && i > 0);
        j = 0;
        do
        :: j < i ->
            passes = passes &&
                     held[who].pending[j].at != held[who].pending[i].at;
            j++
        :: else -> break
        od;
        if
        :: !passes -> i = 0 /* the oldest always may */
        :: else
        fi;
        if
        :: held[who].pending[i].at < 2 * WORDS ->
            ring[held[who].pending[i].at] = held[who].pending[i].value
        :: else ->
            content[held[who].pending[i].at - 2 * WORDS] =
                held[who].pending[i].value
        fi;
        do
        :: i + 1 < held[who].stores ->
            held[who].pending[i].at = held[who].pending[i + 1].at;
            held[who].pending[i].value = held[who].pending[i + 1].value;
            held[who].pending[i].release = held[who].pending[i + 1].release;
            i++
        :: else -> break
        od;
        held[who].stores--;
        held[who].pending[held[who].stores].at = 0;
        held[who].pending[held[who].stores].value = 0;
        held[who].pending[held[who].stores].release = 0;
        i = 0;
        j = 0;
        passes = false
    }
    od
}

#ifdef PUT_RELAXED
#define RELEASE 0
#else
#define RELEASE 1
#endif

#define AT(who, end) (who * WORDS + end)

/* tb_ring_put: writes a word into the ring of `who`. */
inline ring_put(who, end, laps, word) {
    put(who, AT(who, end), word + (laps & 1 -> 0 : LAP), RELEASE);
    end++;
    if
    :: end == WORDS -> end = 0; laps++
    :: else
    fi
}

/* tb_ring_look: is there a word from `who`? */
#ifdef NO_LAP
#define NEWS(who, end, laps) (ring[AT(who, end)] != 0)
#else
#define NEWS(who, end, laps) \
    (ring[AT(who, end)] / LAP == (laps & 1 -> 0 : 1))
#endif

inline ring_step(end, laps) {
    end++;
    if
    :: end == WORDS -> end = 0; laps++
    :: else
    fi
}

active proctype router() {
    byte lent, loans, turn = 1;
    byte down, down_laps, up, up_laps;
    byte word, slot, seen;
    bool told;
    bool mine[SLOTS] = true;

    do
    :: atomic { loans < ROUNDS && lent < LENT ->
        /* any slot that is here */
        if
        :: mine[0] -> slot = 0
        :: mine[1] -> slot = 1
        :: mine[2] -> slot = 2
        fi;
        mine[slot] = false;
        loans++;
        lent++;
        turn++;
        meant[slot] = turn;
        put(ROUTER, 2 * WORDS + slot, turn, 0);
        ring_put(ROUTER, down, down_laps, slot + 1);
        slot = 0 }
    :: atomic { !told ->
        told = true;
        ring_put(ROUTER, down, down_laps, LOST) }
    :: lent > 0 && NEWS(RANK, up, up_laps) ->
        word = ring[AT(RANK, up)];
        atomic {
            assert(SLOT(word) < SLOTS);
            seen = content[SLOT(word)];
            assert(!mine[SLOT(word)]);
            assert(seen == meant[SLOT(word)]);
            mine[SLOT(word)] = true;
            lent--;
            ring_step(up, up_laps);
            word = 0;
            seen = 0
        }
    :: loans == ROUNDS && lent == 0 && told -> break
    od
}

active proctype rank() {
    byte down, down_laps, up, up_laps;
    byte word, seen, read;
    bool told;
#ifdef LOOK_RELAXED
    byte early[SLOTS];
#endif

    do
    :: read < ROUNDS + 1 ->
#ifdef LOOK_RELAXED
        atomic { /* the content before the word */
            early[0] = content[0];
            early[1] = content[1];
            early[2] = content[2]
        }
#endif
        NEWS(ROUTER, down, down_laps);
        word = ring[AT(ROUTER, down)];
        atomic {
            read++;
            ring_step(down, down_laps);
            if
            :: (word & 15) == LOST -> assert(!told); told = true
            :: else ->
                assert(SLOT(word) < SLOTS);
#ifdef LOOK_RELAXED
                seen = early[SLOT(word)];
#else
                seen = content[SLOT(word)];
#endif
                assert(seen == meant[SLOT(word)]);
                meant[SLOT(word)] = seen + 100;
                put(RANK, 2 * WORDS + SLOT(word), seen + 100, 0);
                ring_put(RANK, up, up_laps, (word & 15))
            fi;
            word = 0;
            seen = 0
        }
    :: else -> break
    od
}
