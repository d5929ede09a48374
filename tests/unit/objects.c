/* SPDX-License-Identifier: MIT */
/*
 * Groups, info objects, attributes, error codes, names of communicators and
 * sessions, in a job of one that needs no launcher.
 */
#include "mpi/objects.h"

#include <string.h>

#include "mpi/api.h"
#include "mpi/comm_name.h"
#include "mpi/errcode.h"
#include "mpi/errh.h"
#include "mpi/world.h"
#include "unit/check.h"

/* ------------------------------------------------------------------ groups */

static struct tb_group *group_of(int n, const int *endpoints)
{
    struct tb_group *g;
    int *copy = tb_alloc((size_t)n * sizeof *copy);
    memcpy(copy, endpoints, (size_t)n * sizeof *copy);
    CHECK_EQ(tb_group_make(&g, copy, n), TB_OK);
    return g;
}

static void check_group(struct tb_group *g, int n, const int *endpoints)
{
    CHECK_EQ(g->size, n);
    for (int i = 0; i < n; i++)
        CHECK_EQ(g->ranks[i], endpoints[i]);
    CHECK_EQ(tb_group_free(g), TB_OK);
}

static void group_algebra(void)
{
    struct tb_group *a = group_of(4, (int[]){3, 0, 9, 5});
    struct tb_group *b = group_of(3, (int[]){5, 7, 0});
    struct tb_group *out;
    int result, ranks[5];

    CHECK_EQ(a->rank, 1); /* a job of one is endpoint 0 */
    CHECK_EQ(tb_group_union(a, b, &out), TB_OK);
    check_group(out, 5, (int[]){3, 0, 9, 5, 7});
    CHECK_EQ(tb_group_intersection(a, b, &out), TB_OK);
    check_group(out, 2, (int[]){0, 5});
    CHECK_EQ(tb_group_difference(a, b, &out), TB_OK);
    check_group(out, 2, (int[]){3, 9});
    CHECK_EQ(tb_group_difference(a, a, &out), TB_OK);
    CHECK(out == &tb_group_empty);
    CHECK_EQ(tb_group_translate_ranks(a, 5, (int[]){0, 1, 2, 3, MPI_PROC_NULL},
                                      b, ranks),
             TB_OK);
    CHECK(ranks[0] == MPI_UNDEFINED && ranks[1] == 2 &&
          ranks[2] == MPI_UNDEFINED && ranks[3] == 0 &&
          ranks[4] == MPI_PROC_NULL);
    CHECK_EQ(tb_group_compare(a, b, &result), TB_OK);
    CHECK_EQ(result, MPI_UNEQUAL);
    struct tb_group *c = group_of(4, (int[]){9, 5, 0, 3});
    CHECK_EQ(tb_group_compare(a, c, &result), TB_OK);
    CHECK_EQ(result, MPI_SIMILAR);
    tb_group_unref(a);
    tb_group_unref(b);
    tb_group_unref(c);
}

static void group_choices(void)
{
    struct tb_group *a = group_of(6, (int[]){10, 11, 12, 13, 14, 15});
    struct tb_group *out;

    CHECK_EQ(tb_group_incl(a, 3, (int[]){4, 0, 2}, &out), TB_OK);
    check_group(out, 3, (int[]){14, 10, 12});
    CHECK_EQ(tb_group_excl(a, 3, (int[]){4, 0, 2}, &out), TB_OK);
    check_group(out, 3, (int[]){11, 13, 15});
    CHECK_EQ(tb_group_range_incl(a, 2, (int[][3]){{5, 1, -2}, {0, 1, 2}}, &out),
             TB_OK);
    check_group(out, 4, (int[]){15, 13, 11, 10});
    CHECK_EQ(tb_group_range_excl(a, 1, (int[][3]){{0, 5, 1}}, &out), TB_OK);
    CHECK(out == &tb_group_empty);
    CHECK_EQ(tb_group_incl(a, 2, (int[]){1, 1}, &out), TB_ERR_RANK);
    CHECK_EQ(tb_group_incl(a, 1, (int[]){6}, &out), TB_ERR_RANK);
    CHECK_EQ(tb_group_incl(a, 1, NULL, &out), TB_ERR_ARG);
    CHECK_EQ(tb_group_range_incl(a, 1, (int[][3]){{0, 5, 0}}, &out),
             TB_ERR_ARG);
    CHECK_EQ(tb_group_range_incl(a, 1, (int[][3]){{0, 9, 1}}, &out),
             TB_ERR_RANK);
    CHECK_EQ(
        tb_group_range_incl(a, 1, (int[][3]){{5, -2147483647 - 1, -1}}, &out),
        TB_ERR_RANK);
    CHECK_EQ(tb_group_range_incl(a, 2, (int[][3]){{0, 5, 1}, {0, 0, 1}}, &out),
             TB_ERR_RANK);
    tb_group_unref(a);
}

/* -------------------------------------------------------------------- info */

static void infos(void)
{
    struct tb_info *info, *copy;
    char text[MPI_MAX_INFO_KEY];
    int n, flag;

    CHECK_EQ(tb_info_create(&info), TB_OK);
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof text, "key%d", i);
        CHECK_EQ(tb_info_set(info, text, text + 3), TB_OK);
    }
    CHECK_EQ(tb_info_set(info, "key7", "another"), TB_OK);
    CHECK_EQ(tb_info_delete(info, "key3"), TB_OK);
    CHECK_EQ(tb_info_delete(info, "key3"), TB_ERR_INFO_NOKEY);
    CHECK_EQ(tb_info_get_nkeys(info, &n), TB_OK);
    CHECK_EQ(n, 49);
    CHECK_EQ(tb_info_get_nthkey(info, 3, text), TB_OK);
    CHECK(!strcmp(text, "key4"));
    CHECK_EQ(tb_info_get_nthkey(info, 49, text), TB_ERR_ARG);

    CHECK_EQ(tb_info_dup(info, &copy), TB_OK);
    CHECK_EQ(tb_info_free(info), TB_OK);
    CHECK_EQ(tb_info_get_value(copy, "key7", 3, text, &flag), TB_OK);
    CHECK(flag && !strcmp(text, "ano"));
    n = 4;
    CHECK_EQ(tb_info_get_string(copy, "key7", &n, text, &flag), TB_OK);
    CHECK(flag && n == 8 && !strcmp(text, "ano"));
    n = 0;
    CHECK_EQ(tb_info_get_string(copy, "none", &n, NULL, &flag), TB_OK);
    CHECK(!flag && n == 0);
    CHECK_EQ(tb_info_set(copy, "", "x"), TB_ERR_INFO_KEY);
    CHECK_EQ(tb_info_set(copy, NULL, "x"), TB_ERR_INFO_KEY);
    CHECK_EQ(tb_info_set(copy, "x", NULL), TB_ERR_INFO_VALUE);
    memset(text, 'k', sizeof text);
    text[sizeof text - 1] = 0;
    CHECK_EQ(tb_info_set(copy, text, "x"), TB_OK);
    CHECK_EQ(tb_info_free(copy), TB_OK);
    CHECK_EQ(tb_info_set(&tb_info_env, "key", "x"), TB_ERR_INFO);
    CHECK(tb_info_look(&tb_info_env, "host"));
}

/* -------------------------------------------------------------- attributes */

static int order[8], n_order;
static bool refuse;

static int on_copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out,
                   int *flag)
{
    (void)comm;
    (void)keyval;
    void *value = (char *)in + 100;
    memcpy(out, &value, sizeof value);
    *flag = *(int *)extra;
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)extra;
    CHECK(comm != MPI_COMM_NULL);
    CHECK(keyval != MPI_KEYVAL_INVALID);
    order[n_order++] = (int)(intptr_t)value;
    return refuse ? MPI_ERR_ARG : MPI_SUCCESS;
}

static intptr_t attr(struct tb_comm *c, int key)
{
    void *value;
    int flag;
    CHECK_EQ(tb_comm_get_attr(c, key, &value, &flag), TB_OK);
    return flag ? (intptr_t)value : -1;
}

static void attributes(void)
{
    struct tb_comm *c, *d;
    int keys[3], copied = 1, old;

    CHECK_EQ(tb_comm_dup(tb_world.comm_self, &c), TB_OK);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(tb_comm_create_keyval(i == 1 ? MPI_COMM_NULL_COPY_FN : on_copy,
                                       on_delete, &keys[i], &copied),
                 TB_OK);
        CHECK_EQ(tb_comm_set_attr(c, keys[i], (void *)(intptr_t)(i + 1)),
                 TB_OK);
    }
    old = keys[0];
    CHECK_EQ(tb_comm_free_keyval(&keys[0]), TB_OK);
    CHECK_EQ(keys[0], MPI_KEYVAL_INVALID);
    CHECK_EQ(attr(c, old), 1); /* still in use */
    CHECK_EQ(tb_comm_dup(c, &d), TB_OK);
    CHECK_EQ(attr(d, old), 101);
    CHECK_EQ(attr(d, keys[1]), -1);
    CHECK_EQ(attr(d, keys[2]), 103);
    CHECK_EQ(tb_comm_free(d), TB_OK);
    CHECK(n_order == 2 && order[0] == 103 && order[1] == 101);

    refuse = true;
    CHECK_EQ(tb_comm_dup(c, &d), tb_err_foreign(MPI_ERR_OTHER));
    CHECK_EQ(tb_comm_free(c), tb_err_foreign(MPI_ERR_ARG));
    CHECK_EQ(tb_comm_delete_attr(c, keys[2]), tb_err_foreign(MPI_ERR_ARG));
    CHECK_EQ(attr(c, keys[2]), 3);
    refuse = false;
    n_order = 0;
    CHECK_EQ(tb_comm_set_attr(c, keys[1], (void *)(intptr_t)9), TB_OK);
    CHECK_EQ(tb_comm_free(c), TB_OK); /* in reverse of how they were set */
    CHECK(n_order == 4 && order[0] == 2 && order[1] == 9 && order[2] == 3 &&
          order[3] == 1);
    CHECK_EQ(tb_comm_free_keyval(&old), TB_ERR_KEYVAL);
    CHECK_EQ(tb_type_free_keyval(&keys[1]), TB_ERR_KEYVAL);
    CHECK_EQ(tb_comm_free_keyval(&keys[1]), TB_OK);
    CHECK_EQ(tb_comm_free_keyval(&keys[2]), TB_OK);
    CHECK_EQ(*(int *)attr(tb_world.comm_world, MPI_TAG_UB), 0x3fffffff);
    CHECK_EQ(tb_comm_set_attr(tb_world.comm_world, MPI_TAG_UB, NULL),
             TB_ERR_KEYVAL);
}

/* ------------------------------------------------------------- error codes */

static void codes(void)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length, code, added[3];

    CHECK_EQ(tb_err_code(TB_ERR_RANK, NULL), MPI_ERR_RANK);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "message %d", i);
        code = tb_err_code(TB_ERR_RANK, text);
        CHECK(code > 63 && code <= MPI_ERR_LASTCODE);
        CHECK(code < MPI_T_ERR_CANNOT_INIT || code > 1151);
        CHECK_EQ(tb_error_class(code, &class), TB_OK);
        CHECK_EQ(class, MPI_ERR_RANK);
        char back[MPI_MAX_ERROR_STRING];
        CHECK_EQ(tb_error_string(code, back, &length), TB_OK);
        CHECK(!strcmp(back, text) && length == (int)strlen(text));
    }
    CHECK_EQ(tb_err_code(TB_ERR_IN_STATUS, "x"), MPI_ERR_IN_STATUS);
    for (class = 0; class <= MPI_ERR_ABI; class ++) {
        CHECK_EQ(tb_error_string(class, text, &length), TB_OK);
        CHECK(length > 0);
        CHECK_EQ(tb_error_class(class, &code), TB_OK);
        CHECK_EQ(code, class);
    }
    CHECK_EQ(tb_add_error_class(&added[0]), TB_OK);
    CHECK_EQ(added[0], MPI_ERR_LASTCODE + 1);
    CHECK_EQ(tb_add_error_code(added[0], &added[1]), TB_OK);
    CHECK_EQ(tb_add_error_code(MPI_ERR_ARG, &added[2]), TB_OK);
    CHECK_EQ(tb_err_last_used(), added[2]);
    CHECK_EQ(tb_error_class(added[1], &class), TB_OK);
    CHECK_EQ(class, added[0]);
    CHECK_EQ(tb_add_error_string(added[1], "mine"), TB_OK);
    CHECK_EQ(tb_error_string(added[1], text, &length), TB_OK);
    CHECK(!strcmp(text, "mine"));
    CHECK_EQ(tb_remove_error_class(added[0]), TB_ERR_ARG);
    CHECK_EQ(tb_remove_error_code(added[1]), TB_ERR_ARG);
    CHECK_EQ(tb_remove_error_string(added[1]), TB_OK);
    CHECK_EQ(tb_remove_error_code(added[1]), TB_OK);
    CHECK_EQ(tb_remove_error_class(added[0]), TB_OK);
    CHECK_EQ(tb_remove_error_code(added[2]), TB_OK);
    CHECK_EQ(tb_err_last_used(), MPI_ERR_LASTCODE);
    CHECK_EQ(tb_add_error_code(MPI_ERR_LASTCODE, &code), TB_ERR_ARG);
}

/* ------------------------------------------------------------------- names */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Children, grandchildren, halves and groups of communicators that share a
 * name, as after a split: all differ, and none is odd. */
static void names(void)
{
    enum { CHILDREN = 60 };
    static uint64_t seen[3 * CHILDREN * CHILDREN];
    struct tb_comm parent = {.name_id = 0x1234};
    struct tb_group *pair = group_of(2, (int[]){0, 1});
    size_t n = 0;

    for (int i = 0; i < CHILDREN; i++) {
        struct tb_comm child = {.name_id = tb_comm_next_name(&parent)};
        seen[n++] = child.name_id;
        for (int k = 0; k < CHILDREN; k++) {
            seen[n++] = tb_comm_next_name(&child);
            CHECK_EQ(tb_name_by_group(&child, pair, k % 7, &seen[n++]), TB_OK);
        }
        seen[n++] = tb_name_local(child.name_id);
        tb_uses_free(child.uses);
    }
    /* Two groups of one name, in either role, and a third one. */
    struct tb_name_offer a = {.name = 2, .leader = 0};
    struct tb_name_offer b = {.name = 4, .leader = 5};
    struct tb_name_offer c = {.name = 4, .leader = 0};
    struct tb_name_offer d = {.name = 2, .leader = 7};
    CHECK(tb_name_inter(a, b) == tb_name_inter(b, a));
    seen[n++] = tb_name_inter(a, b);
    seen[n++] = tb_name_inter(c, d);
    qsort(seen, n, sizeof seen[0], by_value);
    for (size_t i = 0; i < n; i++) {
        CHECK(seen[i] % 2 == 0);
        CHECK(i == 0 || seen[i] != seen[i - 1]);
    }
    tb_group_unref(pair);
}

/* Both sides of partitioned operations, which one process may be: the k-th of
 * one is the k-th of the other, whoever is ahead. */
static void part_names(void)
{
    enum { MANY = 50 };
    struct tb_comm here = {.name_id = 0x1234}, there = {.name_id = 0x1234};
    uint64_t sent[MANY], got, other;

    for (int k = 0; k < MANY; k++) {
        CHECK_EQ(tb_name_part(&here, true, 3, 4, 7, &sent[k]), TB_OK);
        CHECK_EQ(tb_name_part(&here, true, 4, 3, 7, &other), TB_OK);
        CHECK(other != sent[k]);
        CHECK_EQ(tb_name_part(&here, true, 3, 4, 8, &other), TB_OK);
        CHECK(other != sent[k]);
    }
    for (int k = 0; k < MANY; k++) {
        CHECK_EQ(tb_name_part(&there, false, 3, 4, 7, &got), TB_OK);
        CHECK(got == sent[k] && got % 2 == 0);
        CHECK_EQ(tb_name_part(&here, false, 3, 4, 7, &got), TB_OK);
        CHECK(got == sent[k]);
    }
    tb_uses_free(here.uses);
    tb_uses_free(there.uses);
}

/* ---------------------------------------------------------------- sessions */

/* A group and a communicator remember the session, and keep it in memory. */
static void sessions(void)
{
    struct tb_session *s;
    struct tb_group *all, *some, *again;
    struct tb_comm *c, *copy;

    CHECK_EQ(tb_session_init(NULL, &tb_errors_return, &s), TB_OK);
    CHECK_EQ(tb_group_from_session_pset(s, "mpi://world", &all), TB_OK);
    CHECK_EQ(tb_group_incl(all, 1, (int[]){0}, &some), TB_OK);
    CHECK(all->session == s && some->session == s);
    CHECK_EQ(
        tb_comm_create_from_group(some, "tag", NULL, &tb_errors_return, &c),
        TB_OK);
    CHECK_EQ(tb_comm_dup(c, &copy), TB_OK);
    CHECK(c->session == s && copy->session == s);
    CHECK_EQ(tb_session_finalize(s), TB_OK);
    CHECK_EQ(tb_comm_group(copy, &again), TB_OK);
    CHECK(again->session == s && s->obj.handle == 0);
    CHECK_EQ(tb_group_free(again), TB_OK);
    CHECK_EQ(tb_group_free(all), TB_OK);
    CHECK_EQ(tb_group_free(some), TB_OK);
    CHECK_EQ(tb_comm_free(copy), TB_OK);
    CHECK_EQ(tb_comm_free(c), TB_OK);
}

int main(void)
{
    CHECK_EQ(tb_init(NULL, NULL), TB_OK);
    group_algebra();
    group_choices();
    infos();
    attributes();
    codes();
    names();
    part_names();
    sessions();
    CHECK_EQ(tb_finalize(), TB_OK);
    return 0;
}
