/* SPDX-License-Identifier: MIT */
/*
 * The doorbell of csrc/base (tb_bell_arm, tb_bell_sleep, tb_bell_ring,
 * tb_bell_wake) on a machine with weak memory order: no wake-up is lost.
 *
 * One owner waits for all work, several ringers publish some each and ring.
 * Memory: what a process stores waits in a buffer of its own and becomes visible
 * in any order until a fence, which waits for all; exchange and addition act on
 * memory at once, as they do on a processor. The owner's look at the work may be
 * taken early unless a fence is before it, and so may the ringer's look at
 * `armed`.
 *
 * Sleep has no time limit here and never ends early, so a lost wake-up is an
 * owner that sleeps for ever: an invalid end.
 *
 * larger: RINGERS=3
 *
 * Switches that must make the check fail:
 *   ARM_UNFENCED   tb_bell_arm without its fence
 *   RING_UNFENCED  tb_bell_ring without its fence
 *   SLEEP_BLIND    tb_bell_sleep does not compare the ticket
 */
#ifndef RINGERS
#define RINGERS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2 /* pieces of work a ringer */
#endif

byte armed, bell;    /* the bell: `armed` and its word */
byte work[RINGERS];  /* pieces that are visible */
bool asleep;

/* Stores that only their process has made so far; a later one to the same
 * place replaces the one before, which nobody has to see. */
bool arms;            /* the owner's, of 1 to `armed` */
bool disarms;         /* the owner's, of 0 */
byte owes[RINGERS];   /* a ringer's, of work */

/* What is buffered is seen by everybody some time or other. */
active proctype owner_stores() {
end:
    do
    :: atomic { arms -> arms = false; armed = 1 }
    :: atomic { disarms -> disarms = false; armed = 0 }
    od
}

active [RINGERS] proctype ringer_stores() {
    byte self = _pid - 1;

end:
    do
    :: atomic { owes[self] > 0 -> work[self] = owes[self]; owes[self] = 0 }
    od
}

#define FENCE_OWNER (!arms && !disarms)

active proctype owner() {
    byte done, seen, ticket, i;
    bool found;

    do
    :: done == RINGERS * ROUNDS -> break
    :: else ->
        /* tb_bell_arm; two stores to one place stay in order */
        atomic { !disarms; ticket = bell; arms = true }
#ifndef ARM_UNFENCED
        FENCE_OWNER;
#endif
        /* the second look */
        atomic {
            seen = 0;
            i = 0;
            do
            :: i < RINGERS -> seen = seen + work[i]; i++
            :: else -> break
            od;
            i = 0;
            found = seen > done
        }
        if
        :: found
        :: else -> /* tb_bell_sleep: compares and sleeps in one step */
#ifdef SLEEP_BLIND
            asleep = true;
#else
            atomic {
                if
                :: bell == ticket -> asleep = true
                :: else
                fi
            }
#endif
            !asleep
        fi;
        atomic { !arms; disarms = true; found = false } /* tb_bell_disarm */
        atomic { /* poll */
            seen = 0;
            i = 0;
            do
            :: i < RINGERS -> seen = seen + work[i]; i++
            :: else -> break
            od;
            i = 0;
            done = seen;
            seen = 0
        }
    od
}

active [RINGERS] proctype ringer() {
    byte self = _pid - RINGERS - 2, piece;
    bool was;

    do
    :: piece == ROUNDS -> break
    :: else ->
        piece++;
        owes[self] = piece; /* publishes */
        /* tb_bell_ring */
#ifndef RING_UNFENCED
        owes[self] == 0;
#endif
        was = armed;
        if
        :: was -> /* tb_bell_wake */
            atomic { was = armed; armed = 0 }
            if
            :: was ->
                bell++;
                asleep = false
            :: else
            fi
        :: else
        fi;
        was = false
    od
}
