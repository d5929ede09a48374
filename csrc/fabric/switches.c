/* SPDX-License-Identifier: MIT */
/* The settings of a fabric: their table, reading and printing them. */
#include "fabric/state.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define UNIT 4294967296.0 /* 2^32: what RATE and SHARE are kept in */
#define TIME_MOST 60e9    /* a minute, in ns */

const struct fab_switch_row fab_switch_rows[FAB_SW_LIMIT] = {
#define X(name, kind, def, words, help) {#name, FAB_##kind, def, words, help},
    FAB_SWITCHES(X)
#undef X
};

int fab_switch_find(const char *name)
{
    for (int i = 0; i < FAB_SW_LIMIT; i++) {
        if (!strcmp(fab_switch_rows[i].name, name))
            return i;
    }
    return -1;
}

bool fab_parse_count(const char *text, uint64_t most, uint64_t *out)
{
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return !errno && !*end && *out <= most;
}

/* A number that is not negative, and what follows it. */
static bool parse_number(const char *text, double *out, const char **unit)
{
    char *end;

    if (!isdigit((unsigned char)*text))
        return false;
    *out = strtod(text, &end);
    *unit = end;
    return isfinite(*out) &&
           strspn(text, "0123456789.e-") >= (size_t)(end - text);
}

static bool parse_time(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const char *unit;
    double value;

    if (!parse_number(text, &value, &unit))
        return false;
    for (size_t i = 0; i < TB_COUNT_OF(units); i++) {
        if (!strcmp(unit, units[i].unit) || (!*unit && value == 0)) {
            value *= units[i].ns;
            *out = (uint64_t)(value + 0.5);
            return value <= TIME_MOST;
        }
    }
    return false;
}

static bool parse_rate(const char *text, uint64_t *out)
{
    const char *unit;
    double value;

    if (!parse_number(text, &value, &unit) || *unit ||
        (value != 0 && (value < 1e-3 || value > 1e3)))
        return false;
    *out = value == 0 ? 0 : (uint64_t)(UNIT / value + 0.5); /* GB/s: 1 B/ns */
    return true;
}

static bool parse_share(const char *text, uint64_t *out)
{
    const char *unit;
    double value;

    if (!parse_number(text, &value, &unit))
        return false;
    if (!strcmp(unit, "%"))
        value /= 100;
    else if (*unit)
        return false;
    *out = (uint64_t)(value * UNIT + 0.5);
    return value <= 1;
}

static bool parse_word(const char *words, const char *text, uint64_t *out)
{
    size_t length = strlen(text);

    for (*out = 0; *words; (*out)++) {
        size_t n = strcspn(words, "|");
        if (n == length && !strncmp(words, text, n))
            return true;
        words += n + (words[n] == '|');
    }
    return false;
}

static const char *takes(enum fab_kind kind)
{
    switch (kind) {
    case FAB_TIME:
        return "a time of at most a minute, such as 5us, 1.5ms or 0";
    case FAB_RATE:
        return "GB/s, 0.001 to 1000, or 0 for no wire time";
    case FAB_SHARE:
        return "a share, such as 1% or 0.0005";
    default:
        return "a whole number below 2^31";
    }
}

tb_err fab_switch_parse(int which, const char *text, uint64_t *out)
{
    const struct fab_switch_row *row = &fab_switch_rows[which];
    bool good = false;

    switch (row->kind) {
    case FAB_COUNT:
        good = fab_parse_count(text, INT32_MAX, out);
        break;
    case FAB_TIME:
        good = parse_time(text, out);
        break;
    case FAB_RATE:
        good = parse_rate(text, out);
        break;
    case FAB_SHARE:
        good = parse_share(text, out);
        break;
    case FAB_WORD:
        if (parse_word(row->words, text, out))
            return TB_OK;
        return tb_fail(TB_ERR_ARG, "%s is one of %s, not '%.40s'", row->name,
                       row->words, text);
    }
    if (good)
        return TB_OK;
    return tb_fail(TB_ERR_ARG, "%s takes %s, not '%.40s'", row->name,
                   takes(row->kind), text);
}

static void print_word(const char *words, uint64_t value, char *out,
                       size_t room)
{
    for (; value && *words; value--) {
        words += strcspn(words, "|");
        words += *words == '|';
    }
    snprintf(out, room, "%.*s", (int)strcspn(words, "|"), words);
}

void fab_switch_print(int which, uint64_t value, char *out, size_t room)
{
    double number = (double)value;

    switch (fab_switch_rows[which].kind) {
    case FAB_COUNT:
        snprintf(out, room, "%llu", (unsigned long long)value);
        break;
    case FAB_TIME:
        snprintf(out, room, "%.7gus", number / 1e3);
        break;
    case FAB_RATE:
        snprintf(out, room, "%.6g", value ? UNIT / number : 0.0);
        break;
    case FAB_SHARE:
        snprintf(out, room, "%.5g%%", number / UNIT * 100);
        break;
    case FAB_WORD:
        print_word(fab_switch_rows[which].words, value, out, room);
        break;
    }
}
