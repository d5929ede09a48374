/* SPDX-License-Identifier: MIT */
/* Reads the settings of config.h; nobody else looks at the environment. */
#include "base/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *tb_env(const char *name)
{
    return getenv(name);
}

static tb_err refuse(const char *env, const char *text, const char *takes)
{
    return tb_fail(TB_ERR_ARG, "%s is \"%.60s\"; it takes %s", env, text,
                   takes);
}

static tb_err read_int(const char *env, const char *text, int64_t *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || errno)
        return refuse(env, text, "a whole number");
    return TB_OK;
}

static tb_err read_bool(const char *env, const char *text, int64_t *out)
{
    static const char *const words[] = {"0", "no",  "off", "false",
                                        "1", "yes", "on",  "true"};

    for (size_t i = 0; i < TB_COUNT_OF(words); i++) {
        if (!strcasecmp(text, words[i])) {
            *out = i >= TB_COUNT_OF(words) / 2;
            return TB_OK;
        }
    }
    return refuse(env, text, "0, 1, yes, no, on, off, true or false");
}

static tb_err read_size(const char *env, const char *text, int64_t *out)
{
    static const char takes[] = "a size in bytes such as 65536, 64k or 1m";
    int shift = 0;
    char *end;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    if (end == text || errno || n < 0)
        return refuse(env, text, takes);
    switch (tolower((unsigned char)*end)) {
    case 'k':
        shift = 10;
        break;
    case 'm':
        shift = 20;
        break;
    case 'g':
        shift = 30;
        break;
    default:
        break;
    }
    if (end[shift > 0] || n > INT64_MAX >> shift)
        return refuse(env, text, takes);
    *out = (int64_t)n << shift;
    return TB_OK;
}

static tb_err read_time(const char *env, const char *text, int64_t *out)
{
    static const struct {
        const char *suffix;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    char *end;
    double n = strtod(text, &end);

    for (size_t i = 0; i < TB_COUNT_OF(units) && end != text; i++) {
        if (strcmp(end, units[i].suffix))
            continue;
        n *= units[i].ns;
        if (!(n > -9e18 && n < 9e18))
            break;
        *out = (int64_t)n;
        return TB_OK;
    }
    return refuse(env, text, "a time in seconds, or with us, ms or s behind");
}

static tb_err read_choice(const char *env, const char *text, const char *words,
                          int64_t *out)
{
    size_t bytes = strlen(text);
    const char *w = words;

    for (*out = 0;; ++*out) {
        size_t len = strcspn(w, "|");
        if (len == bytes && !strncasecmp(w, text, len))
            return TB_OK;
        if (!w[len])
            return refuse(env, text, words);
        w += len + 1;
    }
}

/* A text outlives the environment it came from: others may unset it. */
static tb_err read_text(const char *text, const char *def, const char **out)
{
    *out = text == def ? def : tb_strdup(text);
    return *out ? TB_OK : tb_fail(TB_ERR_NO_MEM, "no memory for the settings");
}

#define READ_INT(env, text, def, unit, out) read_int(env, text, out)
#define READ_BOOL(env, text, def, unit, out) read_bool(env, text, out)
#define READ_SIZE(env, text, def, unit, out) read_size(env, text, out)
#define READ_TIME(env, text, def, unit, out) read_time(env, text, out)
#define READ_CHOICE(env, text, def, unit, out) read_choice(env, text, unit, out)
#define READ_TEXT(env, text, def, unit, out) read_text(text, def, out)

tb_err tb_config_load(struct tb_config *out)
{
    const char *text;

    memset(out, 0, sizeof(*out));
#define X(field, env, kind, def, unit, help) \
    text = tb_env(env);                      \
    if (!text || !*text)                     \
        text = def;                          \
    TB_TRY(READ_##kind(env, text, def, unit, &out->field));
    TB_SETTINGS(X)
#undef X
    tb_log_limit((enum tb_log_level)out->log);
    return TB_OK;
}
