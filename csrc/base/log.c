/* SPDX-License-Identifier: MIT */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024

/* Per process, as standard error is. Set before there are threads. */
static char name[96] = "tbmpi";
static _Atomic int limit = TB_LOG_WARN;

void tb_log_name(const char *prefix)
{
    snprintf(name, sizeof(name), "%s", prefix);
}

void tb_log_limit(enum tb_log_level level)
{
    atomic_store_explicit(&limit, (int)level, memory_order_relaxed);
}

void tb_log(enum tb_log_level level, const char *fmt, ...)
{
    static const char *const words[] = {"error", "warn", "info", "debug"};
    char line[LINE_BYTES];
    size_t used;
    va_list ap;

    if ((int)level > atomic_load_explicit(&limit, memory_order_relaxed))
        return;
    used = (size_t)snprintf(line, sizeof(line), "%s: %s: ", name, words[level]);
    va_start(ap, fmt);
    vsnprintf(line + used, sizeof(line) - used - 1, fmt, ap);
    va_end(ap);
    used = strlen(line);
    line[used++] = '\n';
    /* One write a line, so that lines of many ranks do not mix. A closed
     * standard error is nobody's fault here. */
    if (write(STDERR_FILENO, line, used) < 0)
        return;
}
