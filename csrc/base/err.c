/* SPDX-License-Identifier: MIT */
/* Error texts, and the note of what exactly went wrong on this thread. */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NOTE_BYTES 512

static _Thread_local char note[NOTE_BYTES];

static const char *const texts[TB_ERR_LIMIT] = {"no error",
#define X(name, class, text) text,
                                                TB_ERRORS(X)
#undef X
};

const char *tb_err_text(tb_err err)
{
    if (err >= 0 && err < TB_ERR_LIMIT)
        return texts[err];
    return "an error of the program's own";
}

void tb_fail_say(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(note, sizeof(note), fmt, ap);
    va_end(ap);
}

/* strerror is not safe among threads, and strerror_r exists in two forms that
 * differ in what they return; this one takes either. */
static const char *pick_text(const char *returned, const char *buffer)
{
    (void)buffer;
    return returned;
}

static const char *pick_code(int returned, const char *buffer)
{
    return returned ? "unknown system error" : buffer;
}

#define TEXT_OF(call, buffer) \
    _Generic((call), int : pick_code, default : pick_text)(call, buffer)

tb_err tb_fail_errno(const char *fmt, ...)
{
    int code = errno;
    char text[128] = "";
    size_t used;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(note, sizeof(note), fmt, ap);
    va_end(ap);
    used = strlen(note);
    snprintf(note + used, sizeof(note) - used, ": %s",
             TEXT_OF(strerror_r(code, text, sizeof(text)), text));
    return TB_ERR_SYSTEM;
}

const char *tb_fail_note(void)
{
    return note;
}

void tb_fail_clear(void)
{
    note[0] = 0;
}
