/* SPDX-License-Identifier: MIT */
/*
 * The ring of csrc/net/shm_pipe.c on a machine with weak memory order.
 *
 * Grains, records of one or two of them, wraps, the word cleared ahead, and the
 * late tell are as in the code; names are the code's. A grain is two locations:
 * its first eight bytes, which may be a record's word or packet, and the rest.
 *
 * Memory: what the writer stores waits in a buffer and becomes visible in any
 * order, but for two stores to one location, and but for a release store, which
 * waits until all stores before it are visible. Stores after a release store may
 * overtake it. A load without acquire before it may be taken early, and one
 * without release behind it late; that matters where the reader looks at a
 * packet.
 *
 * Checked, for every run of this size: the reader sees each packet whole, once
 * and in order, never takes a packet's bytes for a word, the writer never
 * overwrites what is not read, and neither waits for ever (no invalid end).
 *
 * larger: PACKETS=6
 *
 * Each of these switches takes away one thing that the code relies on, and
 * must make the check fail:
 *   PUBLISH_RELAXED   publish() without release
 *   ACQUIRE_RELAXED   drain() loads the word without acquire
 *   TELL_RELAXED      tell() without release
 *   NO_CLEAR          commit() does not clear the word behind the record
 *   NO_SPARE          reserve() does not ask for the grain behind the record
 */
#ifndef SIZE
#define SIZE 8 /* grains; a record is at most a quarter */
#endif
#ifndef PACKETS
#define PACKETS 5
#endif
#define BUFFER 8 /* stores in flight */
#define NOWHERE 255

/* Values of a word: nothing, bytes of a packet, a wrap, a record of one or two
 * grains. */
#define EMPTY 0
#define BYTES 1
#define WRAP 2
#define RECORD(n) (2 + n)

#ifdef NO_SPARE
#define SPARE 0
#else
#define SPARE 1
#endif

byte word[SIZE];      /* first eight bytes */
byte rest[SIZE];      /* number of the packet that lies there */
byte first[SIZE];     /* the same, for the first eight bytes */
byte ring_read;       /* grains since the start */

/* ------------------------------------------------ the writer's store buffer */

typedef store {
    byte at;
    byte value;
    byte packet;
    bool is_rest;
    bool release
};
store pending[BUFFER];
byte stores;

inline put(a, v, p, r, rel) {
    atomic {
        stores < BUFFER;
        pending[stores].at = a;
        pending[stores].value = v;
        pending[stores].packet = p;
        pending[stores].is_rest = r;
        pending[stores].release = rel;
        stores++;
    }
}

/* May entry i become visible now? */
inline may_pass(i, answer) {
    answer = (i < stores) && !(pending[i].release && i > 0);
    j = 0;
    do
    :: j < i && answer ->
        if
        :: pending[j].at == pending[i].at &&
           pending[j].is_rest == pending[i].is_rest -> answer = false
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0
}

active proctype memory() {
    byte i, j;
    bool passes;

end:
    do
    :: atomic {
        stores > 0;
        /* any entry that may */
        i = 0;
        do
        :: i + 1 < stores -> i++
        :: break
        od;
        may_pass(i, passes);
        if
        :: passes ->
            if
            :: pending[i].is_rest -> rest[pending[i].at] = pending[i].packet
            :: else ->
                word[pending[i].at] = pending[i].value;
                first[pending[i].at] = pending[i].packet
            fi;
            do
            :: i + 1 < stores ->
                pending[i].at = pending[i + 1].at;
                pending[i].value = pending[i + 1].value;
                pending[i].packet = pending[i + 1].packet;
                pending[i].is_rest = pending[i + 1].is_rest;
                pending[i].release = pending[i + 1].release;
                i++
            :: else -> break
            od;
            stores--;
            pending[stores].at = 0;
            pending[stores].value = 0;
            pending[stores].packet = 0;
            pending[stores].is_rest = 0;
            pending[stores].release = 0
        :: else
        fi;
        i = 0;
        passes = false
    }
    od
}

/* ------------------------------------------------------------------- writer */

#ifdef NO_CLEAR
#define clear_word(at) skip
#else
#define clear_word(at) put(at, EMPTY, 0, 0, 0)
#endif

#ifdef PUBLISH_RELAXED
#define RELEASE 0
#else
#define RELEASE 1
#endif

active proctype writer() {
    byte number = 1, pos, passed, edge = SIZE, clean = NOWHERE;
    byte grains, gap, next;

    do
    :: number > PACKETS -> break
    :: atomic { /* nobody sees a step before it leaves the buffer */
        number <= PACKETS;
        if
        :: grains = 1
        :: grains = 2
        fi;
        /* reserve */
        gap = (pos + grains > SIZE -> SIZE - pos : 0);
        if
        :: passed + gap + grains + SPARE > edge ->
            /* find_room; again after each poll */
            passed + gap + grains + SPARE <= ring_read + SIZE;
            edge = ring_read + SIZE
        :: else
        fi;
        if
        :: gap -> /* wrap */
            clear_word(0);
            put(pos, WRAP, 0, 0, RELEASE);
            pos = 0;
            passed = passed + gap;
            clean = NOWHERE
        :: else
        fi;
        if
        :: clean != NOWHERE && clean - pos < grains -> clean = NOWHERE
        :: else
        fi;
        /* the caller writes the packet */
        put(pos, BYTES, number, 1, 0);
        if
        :: grains == 2 ->
            put(pos + 1, BYTES, number, 0, 0);
            put(pos + 1, BYTES, number, 1, 0)
        :: else
        fi;
        /* commit */
        next = (pos + grains == SIZE -> 0 : pos + grains);
        if
        :: next != clean -> clear_word(next)
        :: else
        fi;
        put(pos, RECORD(grains), number, 0, RELEASE);
        pos = next;
        passed = passed + grains;
        clean = NOWHERE;
        if
        :: next + grains < SIZE && passed + grains + 1 <= edge ->
            clean = next + grains;
            clear_word(clean)
        :: else
        fi;
        number++;
        grains = 0;
        gap = 0;
        next = 0
    }
    od
}

/* ------------------------------------------------------------------- reader */

active proctype reader() {
    byte number = 1, pos, passed, told;
    byte w, grains; /* the record */
    byte a, b, c;   /* its packet as seen */

    do
    :: number > PACKETS -> break
    :: else ->
#ifdef ACQUIRE_RELAXED
        /* The packet is looked at before the word. */
        a = rest[pos];
        b = (pos + 1 < SIZE -> first[pos + 1] : 0);
        c = (pos + 1 < SIZE -> rest[pos + 1] : 0);
#endif
        atomic { word[pos] != EMPTY; w = word[pos] }
        assert(w != BYTES);
#ifdef TELL_RELAXED
        /* What is told becomes visible before the packet is looked at. */
        ring_read = passed + (w == WRAP -> SIZE - pos : w - 2);
#endif
        atomic {
            grains = (w == WRAP -> SIZE - pos : w - 2);
            if
            :: w != WRAP ->
#ifndef ACQUIRE_RELAXED
                a = rest[pos];
                b = (grains == 2 -> first[pos + 1] : number);
                c = (grains == 2 -> rest[pos + 1] : number);
#endif
                assert(first[pos] == number && a == number);
                assert(grains == 1 || b == number && c == number);
                number++
            :: else
            fi;
            pos = (pos + grains == SIZE -> 0 : pos + grains);
            passed = passed + grains;
            w = 0; grains = 0; a = 0; b = 0; c = 0
        }
        atomic {
            if
            :: passed - told >= SIZE / 4 -> /* tell */
                told = passed;
                ring_read = passed
            :: else
            fi
        }
    od
}
