/* SPDX-License-Identifier: MIT */
/*
 * Control variables: the settings of base/config.h, under the names of their
 * environment variables. Most are used once, when the library starts, and can
 * only be read; those that are looked at all the time can be written.
 *
 * INT and SIZE are MPI_COUNT, TIME is MPI_DOUBLE in seconds, TEXT is MPI_CHAR,
 * BOOL and CHOICE are MPI_INT with an enumeration of their words.
 */
#include "mpi/tool.h"

#include <stdio.h>

struct setting {
    const char *name, *def, *unit, *help;
    enum tb_setting_kind kind;
    size_t at; /* in struct tb_config */
};

static const struct setting settings[] = {
#define X(field, env, kind, def, unit, help) \
    {env, def, unit, help, TB_SET_##kind, offsetof(struct tb_config, field)},
    TB_SETTINGS(X)
#undef X
};

/* Those that can be written. TBMPI_LOG has no enumeration: a number beyond the
 * last word asks for everything, as the last one does. */
#define LOG_AT offsetof(struct tb_config, log)

static bool is_live(const struct setting *s)
{
    return s->at == LOG_AT || s->at == offsetof(struct tb_config, yields) ||
           s->at == offsetof(struct tb_config, check);
}

static const void *place_of(const struct setting *s)
{
    return (const char *)&tb_world.config + s->at;
}

static int64_t number_of(const struct setting *s)
{
    int64_t n;
    memcpy(&n, place_of(s), sizeof n);
    return n;
}

static const char *text_of(const struct setting *s)
{
    const char *text;
    memcpy(&text, place_of(s), sizeof text);
    return text;
}

static MPI_Datatype type_of(const struct setting *s)
{
    switch (s->kind) {
    case TB_SET_INT:
    case TB_SET_SIZE:
        return MPI_COUNT;
    case TB_SET_TIME:
        return MPI_DOUBLE;
    case TB_SET_TEXT:
        return MPI_CHAR;
    default:
        return MPI_INT;
    }
}

/* ------------------------------------------------------------ enumerations */

/* The enumeration of a setting is the setting. Its words; NULL: it has none. */
static const char *words_of(const struct setting *s)
{
    if (s->kind == TB_SET_BOOL)
        return "off|on";
    return s->kind == TB_SET_CHOICE && s->at != LOG_AT ? s->unit : NULL;
}

static MPI_T_enum enum_of(const struct setting *s)
{
    return words_of(s) ? (MPI_T_enum)(uintptr_t)s : MPI_T_ENUM_NULL;
}

static const struct setting *find_enum(MPI_T_enum handle)
{
    for (size_t i = 0; i < TB_COUNT_OF(settings); i++)
        if (handle && enum_of(&settings[i]) == handle)
            return &settings[i];
    return NULL;
}

int tb_t_enum_get_info(MPI_T_enum enumtype, int *num, char *name, int *name_len)
{
    TB_TOOL_READY();
    const struct setting *s = find_enum(enumtype);
    if (!s)
        return MPI_T_ERR_INVALID_HANDLE;
    int n = 1;
    for (const char *w = words_of(s); *w; w++)
        n += *w == '|';
    tb_tool_put(num, n);
    tb_tool_text(s->name, name, name_len);
    return MPI_SUCCESS;
}

int tb_t_enum_get_item(MPI_T_enum enumtype, int indx, int *value, char *name,
                       int *name_len)
{
    char word[64];
    TB_TOOL_READY();
    const struct setting *s = find_enum(enumtype);
    if (!s)
        return MPI_T_ERR_INVALID_HANDLE;
    const char *w = words_of(s);
    for (int i = 0; i < indx && w; i++) {
        w = strchr(w, '|');
        w += w != NULL;
    }
    if (indx < 0 || !w)
        return MPI_T_ERR_INVALID_ITEM;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(w, "|"), w);
    tb_tool_put(value, indx);
    tb_tool_text(word, name, name_len);
    return MPI_SUCCESS;
}

/* --------------------------------------------------------------- inquiries */

int tb_tool_cvars(void)
{
    return (int)TB_COUNT_OF(settings);
}

int tb_tool_cvar_category(int i)
{
    static const struct {
        const char *begin;
        enum tb_tool_category category;
    } rules[] = {
        {"TBMPI_RDMA_", TB_TOOL_THUNDERBOLT},
        {"TBMPI_ROUTER_", TB_TOOL_THUNDERBOLT},
        {"TBMPI_CABLE_", TB_TOOL_THUNDERBOLT},
        {"TBMPI_POOL", TB_TOOL_THUNDERBOLT},
        {"TBMPI_LIBRDMA", TB_TOOL_THUNDERBOLT},
        {"TBMPI_WINDOWS", TB_TOOL_THUNDERBOLT},
        {"TBMPI_TCP_", TB_TOOL_SOCKETS},
        {"TBMPI_EAGER", TB_TOOL_PROTOCOLS},
        {"TBMPI_RING", TB_TOOL_PROTOCOLS},
        {"TBMPI_SINGLE_COPY", TB_TOOL_PROTOCOLS},
        {"TBMPI_SPIN", TB_TOOL_WAITING},
        {"TBMPI_YIELDS", TB_TOOL_WAITING},
        {"TBMPI_CHECK", TB_TOOL_WAITING},
        {"TBMPI_STOPPED_", TB_TOOL_WAITING},
        {"TBMPI_REPRODUCIBLE", TB_TOOL_COLLECTIVES},
        {"TBMPI_COMMONS", TB_TOOL_COLLECTIVES},
        {"TBMPI_COLL", TB_TOOL_COLLECTIVES},
    };
    for (size_t k = 0; k < TB_COUNT_OF(rules); k++)
        if (!strncmp(settings[i].name, rules[k].begin, strlen(rules[k].begin)))
            return (int)rules[k].category;
    return TB_TOOL_START;
}

int tb_t_cvar_get_num(int *num_cvar)
{
    TB_TOOL_READY();
    if (!num_cvar)
        return MPI_T_ERR_INVALID;
    *num_cvar = tb_tool_cvars();
    return MPI_SUCCESS;
}

int tb_t_cvar_get_index(const char *name, int *cvar_index)
{
    TB_TOOL_READY();
    if (!name || !cvar_index)
        return MPI_T_ERR_INVALID;
    for (size_t i = 0; i < TB_COUNT_OF(settings); i++)
        if (strcmp(name, settings[i].name) == 0) {
            *cvar_index = (int)i;
            return MPI_SUCCESS;
        }
    return MPI_T_ERR_INVALID_NAME;
}

static bool is_index(int i)
{
    return i >= 0 && i < tb_tool_cvars();
}

int tb_t_cvar_get_info(int cvar_index, char *name, int *name_len,
                       int *verbosity, MPI_Datatype *datatype,
                       MPI_T_enum *enumtype, char *desc, int *desc_len,
                       int *bind, int *scope)
{
    char text[256];
    TB_TOOL_READY();
    if (!is_index(cvar_index))
        return MPI_T_ERR_INVALID_INDEX;
    const struct setting *s = &settings[cvar_index];
    snprintf(text, sizeof text, "%s; default: %s%s%s", s->help,
             s->def[0] ? s->def : "none", s->unit[0] ? "; " : "", s->unit);
    tb_tool_text(s->name, name, name_len);
    tb_tool_text(text, desc, desc_len);
    tb_tool_put(verbosity, MPI_T_VERBOSITY_TUNER_BASIC);
    if (datatype)
        *datatype = type_of(s);
    if (enumtype)
        *enumtype = enum_of(s);
    tb_tool_put(bind, MPI_T_BIND_NO_OBJECT);
    tb_tool_put(scope, is_live(s) ? MPI_T_SCOPE_LOCAL : MPI_T_SCOPE_READONLY);
    return MPI_SUCCESS;
}

/* ------------------------------------------------------------------ handles */

struct MPI_ABI_T_cvar_handle {
    struct MPI_ABI_T_cvar_handle *next;
    const struct setting *setting;
    size_t chars; /* TEXT: as many are read, at most */
};

static struct MPI_ABI_T_cvar_handle *handles;

/* Where the list points to it; NULL: it is not a handle. */
static struct MPI_ABI_T_cvar_handle **find(MPI_T_cvar_handle handle)
{
    for (struct MPI_ABI_T_cvar_handle **at = &handles; *at; at = &(*at)->next)
        if (*at == handle)
            return at;
    return NULL;
}

/* No variable is bound to an object. */
int tb_t_cvar_handle_alloc(int cvar_index, void *obj_handle,
                           MPI_T_cvar_handle *handle, int *count)
{
    (void)obj_handle;
    TB_TOOL_READY();
    if (!is_index(cvar_index))
        return MPI_T_ERR_INVALID_INDEX;
    if (!handle || !count)
        return MPI_T_ERR_INVALID;
    struct MPI_ABI_T_cvar_handle *h = tb_calloc(1, sizeof *h);
    if (!h)
        return MPI_T_ERR_OUT_OF_HANDLES;
    h->setting = &settings[cvar_index];
    *count = 1;
    if (h->setting->kind == TB_SET_TEXT) {
        h->chars = strlen(text_of(h->setting)) + 1;
        *count = (int)h->chars;
    }
    tb_tool_lock();
    h->next = handles;
    handles = h;
    tb_tool_unlock();
    *handle = h;
    return MPI_SUCCESS;
}

int tb_t_cvar_handle_free(MPI_T_cvar_handle *handle)
{
    TB_TOOL_READY();
    if (!handle)
        return MPI_T_ERR_INVALID;
    tb_tool_lock();
    struct MPI_ABI_T_cvar_handle **at = find(*handle), *h = NULL;
    if (at) {
        h = *at;
        *at = h->next;
    }
    tb_tool_unlock();
    if (!h)
        return MPI_T_ERR_INVALID_HANDLE;
    tb_free(h);
    *handle = MPI_T_CVAR_HANDLE_NULL;
    return MPI_SUCCESS;
}

void tb_tool_cvar_end(void)
{
    while (handles) {
        struct MPI_ABI_T_cvar_handle *h = handles;
        handles = h->next;
        tb_free(h);
    }
}

static void read_value(const struct MPI_ABI_T_cvar_handle *h, void *buf)
{
    const struct setting *s = h->setting;
    int64_t n = s->kind == TB_SET_TEXT ? 0 : number_of(s);
    double seconds = (double)n * 1e-9;
    MPI_Count count = n;
    int word = (int)n;

    switch (s->kind) {
    case TB_SET_TEXT:
        snprintf(buf, h->chars, "%s", text_of(s));
        break;
    case TB_SET_TIME:
        memcpy(buf, &seconds, sizeof seconds);
        break;
    case TB_SET_INT:
    case TB_SET_SIZE:
        memcpy(buf, &count, sizeof count);
        break;
    default:
        memcpy(buf, &word, sizeof word);
        break;
    }
}

int tb_t_cvar_read(MPI_T_cvar_handle handle, void *buf)
{
    TB_TOOL_READY();
    if (!buf)
        return MPI_T_ERR_INVALID;
    tb_tool_lock();
    bool known = find(handle) != NULL;
    if (known)
        read_value(handle, buf);
    tb_tool_unlock();
    return known ? MPI_SUCCESS : MPI_T_ERR_INVALID_HANDLE;
}

/* The values that can be written are all numbers from 0 on. Who waits reads
 * them without a lock: one store each. */
static int write_value(const struct setting *s, const void *buf)
{
    int64_t n;
    double seconds;
    int word;

    switch (s->kind) {
    case TB_SET_TIME:
        memcpy(&seconds, buf, sizeof seconds);
        if (!(seconds >= 0 && seconds < 9e9))
            return MPI_T_ERR_INVALID;
        n = (int64_t)(seconds * 1e9);
        break;
    case TB_SET_INT:
        memcpy(&n, buf, sizeof n);
        break;
    default:
        memcpy(&word, buf, sizeof word);
        n = word;
        break;
    }
    if (n < 0)
        return MPI_T_ERR_INVALID;
    memcpy((char *)&tb_world.config + s->at, &n, sizeof n);
    if (s->at == LOG_AT)
        tb_log_limit((enum tb_log_level)TB_MIN(n, TB_LOG_DEBUG));
    return MPI_SUCCESS;
}

int tb_t_cvar_write(MPI_T_cvar_handle handle, const void *buf)
{
    TB_TOOL_READY();
    if (!buf)
        return MPI_T_ERR_INVALID;
    tb_tool_lock();
    int code = MPI_T_ERR_INVALID_HANDLE;
    if (find(handle))
        code = is_live(handle->setting) ? write_value(handle->setting, buf)
                                        : MPI_T_ERR_CVAR_SET_NEVER;
    tb_tool_unlock();
    return code;
}
