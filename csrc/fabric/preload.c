/* SPDX-License-Identifier: MIT */
/*
 * For programs that have this library in front of all others: a virtual Mac
 * has pages of 16 KiB, and whoever aligns memory for registration asks for the
 * page size. Not for macOS, where that is so anyway; not in the tests, which
 * are linked with the rest.
 */
#include "base/base.h"

#include <dlfcn.h>
#include <unistd.h>

typedef long sysconf_fn(int name);

__attribute__((visibility("default"))) long sysconf(int name)
{
    static _Atomic(sysconf_fn *) real;
    sysconf_fn *next = atomic_load_explicit(&real, memory_order_relaxed);

    if (name == _SC_PAGESIZE)
        return TB_PAGE;
    if (!next) {
        *(void **)&next = dlsym(RTLD_NEXT, "sysconf");
        atomic_store_explicit(&real, next, memory_order_relaxed);
    }
    return next ? next(name) : -1;
}

__attribute__((visibility("default"))) int getpagesize(void)
{
    return TB_PAGE;
}
