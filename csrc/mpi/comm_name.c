/* SPDX-License-Identifier: MIT */
/* Names of communicators. Even numbers; name | 1 is for collectives. */
#include "mpi/comm_name.h"

/* Kinds of derivation, so that equal arguments of two kinds differ. */
#define BY_ALL 0x616c6cu
#define BY_GROUP 0x67726f7570u
#define BY_LEADERS 0x696e746572u
#define BY_HALF 0x68616c66u
#define BY_PART 0x70617274u

/* The finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable
 * pseudorandom number generators", OOPSLA 2014): a bijection. */
static uint64_t scramble(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t tb_name_mix(uint64_t a, uint64_t b)
{
    return scramble(scramble(a + 0x9e3779b97f4a7c15u) + b);
}

static uint64_t derive(uint64_t from, uint64_t how, uint64_t with)
{
    return tb_name_mix(tb_name_mix(from, how), with) & ~(uint64_t)1;
}

uint64_t tb_name_local(uint64_t name)
{
    return derive(name, BY_HALF, 0);
}

uint64_t tb_comm_next_name(struct tb_comm *parent)
{
    return derive(parent->name_id, BY_ALL, ++parent->children);
}

uint64_t tb_name_inter(struct tb_name_offer a, struct tb_name_offer b)
{
    struct tb_name_offer low = a.leader < b.leader ? a : b;
    struct tb_name_offer high = a.leader < b.leader ? b : a;
    uint64_t name = tb_name_mix(low.name, (uint64_t)low.leader);
    name = tb_name_mix(name, high.name);
    return derive(name, BY_LEADERS, (uint64_t)high.leader);
}

/* ---------------------------------------------- creations that not all make */

/* How often a key was used: a hash table with open addressing. Key 0: free. */
struct tb_uses {
    uint32_t n, room; /* room is a power of two */
    struct use {
        uint64_t key;
        uint64_t count;
    } table[];
};

static struct use *find(struct tb_uses *uses, uint64_t key)
{
    uint32_t i = (uint32_t)key & (uses->room - 1);
    while (uses->table[i].key && uses->table[i].key != key)
        i = (i + 1) & (uses->room - 1);
    return &uses->table[i];
}

static tb_err grow(struct tb_uses **at)
{
    struct tb_uses *old = *at;
    uint32_t room = old ? 2 * old->room : 16;
    struct tb_uses *new =
        tb_calloc(1, sizeof *new + room * sizeof new->table[0]);
    if (!new)
        return tb_fail(TB_ERR_NO_MEM, "no memory to name a communicator");
    new->room = room;
    for (uint32_t i = 0; old && i < old->room; i++) {
        if (!old->table[i].key)
            continue;
        *find(new, old->table[i].key) = old->table[i];
        new->n++;
    }
    tb_free(old);
    *at = new;
    return TB_OK;
}

/* Counts a use of the key, which need not be odd. */
static tb_err count_use(struct tb_comm *c, uint64_t key, uint64_t *count)
{
    if (!c->uses || 2 * c->uses->n >= c->uses->room)
        TB_TRY(grow(&c->uses));
    struct use *use = find(c->uses, key | 1);
    if (!use->key) {
        use->key = key | 1;
        c->uses->n++;
    }
    *count = ++use->count;
    return TB_OK;
}

tb_err tb_name_by_group(struct tb_comm *parent, const struct tb_group *group,
                        uint64_t tag, uint64_t *out)
{
    uint64_t key = tb_name_mix(tag, (uint64_t)group->size), count;

    for (int i = 0; i < group->size; i++)
        key = tb_name_mix(key, (uint64_t)group->ranks[i]);
    TB_TRY(count_use(parent, key, &count));
    *out = derive(tb_name_mix(parent->name_id, key), BY_GROUP, count);
    return TB_OK;
}

tb_err tb_name_part(struct tb_comm *c, bool sends, int from, int to, int tag,
                    uint64_t *out)
{
    uint64_t key = tb_name_mix(BY_PART, (uint64_t)from), count;

    key = tb_name_mix(tb_name_mix(key, (uint64_t)to), (uint64_t)tag);
    TB_TRY(count_use(c, tb_name_mix(key, sends), &count));
    *out = derive(tb_name_mix(c->name_id, key), BY_PART, count);
    return TB_OK;
}

uint64_t tb_name_tag(const char *text)
{
    uint64_t tag = BY_GROUP;

    for (; *text; text++)
        tag = tb_name_mix(tag, (unsigned char)*text);
    return tag | (uint64_t)1 << 63;
}

void tb_uses_free(struct tb_uses *uses)
{
    tb_free(uses);
}
