/* SPDX-License-Identifier: MIT */
/* Info objects: ordered lists of keys with values. */
#include "mpi/api.h"
#include "mpi/life.h"
#include "mpi/world.h"

#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

struct tb_info tb_info_env = {
    .obj = {.handle = 0x131,
            .refs = 1,
            .kind = TB_KIND_INFO,
            .predefined = true},
};

/* --------------------------------------------------------- the pairs */

static int find(const struct tb_info *info, const char *key)
{
    for (int i = 0; i < info->n; i++)
        if (strcmp(info->pairs[i].key, key) == 0)
            return i;
    return -1;
}

const char *tb_info_look(const struct tb_info *info, const char *key)
{
    int i = info ? find(info, key) : -1;
    return i < 0 ? NULL : info->pairs[i].value;
}

static tb_err no_memory(void)
{
    return tb_fail(TB_ERR_NO_MEM, "no memory for an info object");
}

static tb_err make_room(struct tb_info *info)
{
    if (info->n < info->room)
        return TB_OK;
    int room = info->room ? 2 * info->room : 8;
    void *more = tb_realloc(info->pairs, (size_t)room * sizeof *info->pairs);
    if (!more)
        return no_memory();
    info->pairs = more;
    info->room = room;
    return TB_OK;
}

static tb_err put(struct tb_info *info, const char *key, const char *value)
{
    int i = find(info, key);
    char *copy = tb_strdup(value);
    if (!copy)
        return no_memory();
    if (i >= 0) {
        tb_free(info->pairs[i].value);
        info->pairs[i].value = copy;
        return TB_OK;
    }
    tb_err err = make_room(info);
    char *name = err ? NULL : tb_strdup(key);
    if (!name) {
        tb_free(copy);
        return no_memory();
    }
    info->pairs[info->n].key = name;
    info->pairs[info->n++].value = copy;
    return TB_OK;
}

static void clear(struct tb_info *info)
{
    for (int i = 0; i < info->n; i++) {
        tb_free(info->pairs[i].key);
        tb_free(info->pairs[i].value);
    }
    tb_free(info->pairs);
    info->pairs = NULL;
    info->n = info->room = 0;
}

/* ------------------------------------------------------------ objects */

tb_err tb_info_make(struct tb_info **out)
{
    struct tb_info *info = tb_calloc(1, sizeof *info);
    if (!info)
        return no_memory();
    info->obj.kind = TB_KIND_INFO;
    info->obj.refs = 1;
    *out = info;
    return TB_OK;
}

void tb_info_release(struct tb_info *info)
{
    if (!info || info->obj.predefined)
        return;
    tb_handle_drop(&info->obj);
    clear(info);
    tb_free(info);
}

tb_err tb_info_copy(const struct tb_info *from, struct tb_info **out)
{
    struct tb_info *info = NULL;
    tb_err err = tb_info_make(&info);

    for (int i = 0; !err && i < from->n; i++)
        err = put(info, from->pairs[i].key, from->pairs[i].value);
    if (err)
        tb_info_release(info);
    else
        *out = info;
    return err;
}

/* Hands a new object to the program. */
static tb_err publish(tb_err err, struct tb_info *info, struct tb_info **out)
{
    if (!err)
        err = tb_handle_new(&info->obj, TB_KIND_INFO);
    if (err)
        tb_info_release(info);
    else
        *out = info;
    return err;
}

tb_err tb_info_create(struct tb_info **info)
{
    struct tb_info *new = NULL;
    tb_err err = tb_info_make(&new);
    return publish(err, new, info);
}

tb_err tb_info_dup(struct tb_info *info, struct tb_info **newinfo)
{
    struct tb_info *new = NULL;
    tb_err err = tb_info_copy(info, &new);
    return publish(err, new, newinfo);
}

static tb_err not_env(const struct tb_info *info)
{
    if (info->obj.predefined)
        return tb_fail(TB_ERR_INFO, "MPI_INFO_ENV cannot be changed: work on a "
                                    "copy made by MPI_Info_dup");
    return TB_OK;
}

tb_err tb_info_free(struct tb_info *info)
{
    TB_TRY(not_env(info));
    tb_info_release(info);
    return TB_OK;
}

/* ----------------------------------------------------- keys and values */

static tb_err check_key(const char *key)
{
    size_t length = key ? strlen(key) : 0;
    if (!key)
        return tb_fail(TB_ERR_INFO_KEY, "the info key is NULL");
    if (length == 0)
        return tb_fail(TB_ERR_INFO_KEY, "the info key is empty");
    if (length >= MPI_MAX_INFO_KEY)
        return tb_fail(TB_ERR_INFO_KEY,
                       "the info key has %zu characters; the "
                       "most is %d",
                       length, MPI_MAX_INFO_KEY - 1);
    return TB_OK;
}

tb_err tb_info_set(struct tb_info *info, const char *key, const char *value)
{
    TB_TRY(not_env(info));
    TB_TRY(check_key(key));
    if (!value)
        return tb_fail(TB_ERR_INFO_VALUE,
                       "the value of info key \"%s\" is "
                       "NULL",
                       key);
    if (strlen(value) >= MPI_MAX_INFO_VAL)
        return tb_fail(TB_ERR_INFO_VALUE,
                       "the value of info key \"%s\" has "
                       "%zu characters; the most is %d",
                       key, strlen(value), MPI_MAX_INFO_VAL - 1);
    return put(info, key, value);
}

tb_err tb_info_delete(struct tb_info *info, const char *key)
{
    TB_TRY(not_env(info));
    TB_TRY(check_key(key));
    int i = find(info, key);
    if (i < 0)
        return tb_fail(TB_ERR_INFO_NOKEY,
                       "there is no info key \"%s\" to "
                       "delete",
                       key);
    tb_free(info->pairs[i].key);
    tb_free(info->pairs[i].value);
    info->n--;
    memmove(&info->pairs[i], &info->pairs[i + 1],
            (size_t)(info->n - i) * sizeof *info->pairs);
    return TB_OK;
}

tb_err tb_info_get_value(struct tb_info *info, const char *key, int valuelen,
                         char *value, int *flag)
{
    TB_TRY(check_key(key));
    if (valuelen < 0)
        return tb_fail(TB_ERR_ARG, "valuelen is %d: it must not be negative",
                       valuelen);
    const char *found = tb_info_look(info, key);
    *flag = found != NULL;
    if (!found)
        return TB_OK;
    if (!value)
        return tb_fail(TB_ERR_INFO_VALUE, "value must not be NULL");
    /* The standard counts valuelen without the terminator. */
    snprintf(value, (size_t)valuelen + 1, "%s", found);
    return TB_OK;
}

tb_err tb_info_get_string(struct tb_info *info, const char *key, int *buflen,
                          char *value, int *flag)
{
    TB_TRY(check_key(key));
    int room = *buflen;
    if (room < 0)
        return tb_fail(TB_ERR_ARG, "buflen is %d: it must not be negative",
                       room);
    const char *found = tb_info_look(info, key);
    *flag = found != NULL;
    if (!found)
        return TB_OK;
    if (room > 0 && !value)
        return tb_fail(TB_ERR_INFO_VALUE,
                       "value must not be NULL when buflen is %d", room);
    if (room > 0)
        snprintf(value, (size_t)room, "%s", found);
    *buflen = (int)strlen(found) + 1;
    return TB_OK;
}

tb_err tb_info_get_valuelen(struct tb_info *info, const char *key,
                            int *valuelen, int *flag)
{
    TB_TRY(check_key(key));
    const char *found = tb_info_look(info, key);
    *flag = found != NULL;
    if (found)
        *valuelen = (int)strlen(found);
    return TB_OK;
}

tb_err tb_info_get_nkeys(struct tb_info *info, int *nkeys)
{
    *nkeys = info->n;
    return TB_OK;
}

tb_err tb_info_get_nthkey(struct tb_info *info, int n, char *key)
{
    if (n < 0 || n >= info->n)
        return tb_fail(TB_ERR_ARG,
                       "key number %d of an info object that has "
                       "%d",
                       n, info->n);
    snprintf(key, MPI_MAX_INFO_KEY, "%s", info->pairs[n].key);
    return TB_OK;
}

/* ------------------------------------------------------- the environment */

static tb_err put_arguments(struct tb_info *info, int argc, char **argv)
{
    char line[MPI_MAX_INFO_VAL] = "";
    size_t used = 0;

    if (argc < 1 || !argv || !argv[0])
        return TB_OK;
    for (int i = 1; i < argc && argv[i] && used < sizeof(line); i++)
        used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s",
                                 i > 1 ? " " : "", argv[i]);
    TB_TRY(put(info, "argv", line));
    snprintf(line, sizeof(line), "%s", argv[0]);
    return put(info, "command", line);
}

/* What is known of this process at any time; the keys are the standard's. */
static tb_err put_process(struct tb_info *info, int argc, char **argv)
{
    char text[MPI_MAX_INFO_VAL];
    struct utsname machine;

    TB_TRY(put_arguments(info, argc, argv));
    tb_host_name(text, sizeof(text));
    TB_TRY(put(info, "host", text));
    if (uname(&machine) == 0)
        TB_TRY(put(info, "arch", machine.machine));
    if (getcwd(text, sizeof(text)))
        TB_TRY(put(info, "wdir", text));
    return TB_OK;
}

tb_err tb_info_create_env(int argc, char *argv[], struct tb_info **info)
{
    struct tb_info *new = NULL;
    tb_err err = tb_info_make(&new);
    if (!err)
        err = put_process(new, argc, argv);
    return publish(err, new, info);
}

/* MPI_INFO_ENV. The arguments are not known: MPI_Init may be given none. */
tb_err tb_info_init(void)
{
    char size[16];

    snprintf(size, sizeof(size), "%d", tb_boot_size(tb_world.boot));
    TB_TRY(put_process(&tb_info_env, 0, NULL));
    TB_TRY(put(&tb_info_env, "maxprocs", size));
    return put(&tb_info_env, "soft", size);
}

/* The program's own objects stay: they are legal after MPI_Finalize. */
void tb_info_fini(void)
{
    clear(&tb_info_env);
}
