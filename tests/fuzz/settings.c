/* SPDX-License-Identifier: MIT */
/* The environment variables that are settings (base/config.h). */
#include "base/config.h"

#include "fuzz/fuzz.h"

/* Texts among the settings live as long as the process: not a leak. */
FUZZ_LEAKS

static const char *const names[] = {
#define X(field, env, kind, def, unit, help) env,
    TB_SETTINGS(X)
#undef X
};

static void fuzz_example(struct fuzz *f)
{
    static const char *const values[] = {
        "1",   "0",   "-1",   "4k",   "2m",     "1g",       "0.5",
        "yes", "off", "auto", "1e-3", "ring=3", "17 bytes", "allreduce=ring",
    };

    for (size_t n = 1 + fuzz_below(f, 3); n > 0; n--) {
        fuzz_add_text(f, values[fuzz_below(f, TB_COUNT_OF(values))]);
        fuzz_add(f, "\n", 1);
    }
}

static void fuzz_try(struct fuzz *f)
{
    char *text = (char *)f->data, *rest = text;
    const char *set[8];
    struct tb_config config;
    size_t n = 0;

    while (n < TB_COUNT_OF(set) && (text = strtok_r(rest, "\n", &rest))) {
        set[n] = names[fuzz_below(f, TB_COUNT_OF(names))];
        setenv(set[n++], text, 1);
    }
    if (tb_config_load(&config))
        CHECK(strstr(tb_fail_note(), "TBMPI_"));
    while (n > 0)
        unsetenv(set[--n]);
}
