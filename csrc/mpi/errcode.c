/* SPDX-License-Identifier: MIT */
/* Error codes, classes and their texts; those that the program adds. */
#include "mpi/errcode.h"

#include "mpi/api.h"

#include <pthread.h>
#include <stdio.h>

#define CLASS_BITS 6
#define CLASS_MASK ((1 << CLASS_BITS) - 1)
#define SLOTS 256 /* slot 0 would make a code that is a class */

/* slot << 6 of these is where the classes of the tool interface are. */
#define TOOL_SLOT_FIRST 15
#define TOOL_SLOT_LAST 17
_Static_assert(TOOL_SLOT_FIRST << CLASS_BITS <= MPI_T_ERR_CANNOT_INIT &&
                   ((TOOL_SLOT_LAST + 1) << CLASS_BITS) > 1151,
               "codes with a message keep clear of the tool classes");
_Static_assert(((SLOTS - 1) << CLASS_BITS | CLASS_MASK) == MPI_ERR_LASTCODE,
               "all codes of the library's own fit");

/* Errors can be made by any thread, also before MPI_Init. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    int class;
    char text[MPI_MAX_ERROR_STRING];
} slots[SLOTS];
static int last_slot;

/* A class or code of the program's own, at its number - LASTCODE - 1. */
struct added {
    bool used;
    int class; /* a class: its own number */
    int codes; /* a class: codes of it in use */
    char *text;
};
static struct added *added;
static int n_added, room_added;

static const int classes[TB_ERR_LIMIT] = {MPI_SUCCESS,
#define X(name, class, text) class,
                                          TB_ERRORS(X)
#undef X
};

int tb_err_class(tb_err err)
{
    if (err >= TB_ERR_FOREIGN)
        return err - TB_ERR_FOREIGN;
    return err >= 0 && err < TB_ERR_LIMIT ? classes[err] : MPI_ERR_INTERN;
}

static int next_slot(void)
{
    if (++last_slot == TOOL_SLOT_FIRST)
        last_slot = TOOL_SLOT_LAST + 1;
    if (last_slot == SLOTS)
        last_slot = 1;
    return last_slot;
}

int tb_err_code(tb_err err, const char *message)
{
    int class = tb_err_class(err);

    if (!message || err >= TB_ERR_FOREIGN || class == MPI_ERR_IN_STATUS ||
        class == MPI_ERR_PENDING)
        return class;
    pthread_mutex_lock(&lock);
    int slot = next_slot();
    slots[slot].class = class;
    snprintf(slots[slot].text, sizeof(slots[slot].text), "%s", message);
    pthread_mutex_unlock(&lock);
    return slot << CLASS_BITS | class;
}

/* -------------------------------------------------------- class and text */

static const struct {
    int class;
    const char *text;
} tool_texts[] = {
    {MPI_T_ERR_CANNOT_INIT, "the tool interface cannot be initialised"},
    {MPI_T_ERR_NOT_ACCESSIBLE, "the tool interface is not accessible now"},
    {MPI_T_ERR_NOT_INITIALIZED, "the tool interface is not initialised"},
    {MPI_T_ERR_NOT_SUPPORTED, "not supported by the tool interface"},
    {MPI_T_ERR_MEMORY, "out of memory in the tool interface"},
    {MPI_T_ERR_INVALID, "invalid use of the tool interface"},
    {MPI_T_ERR_INVALID_INDEX, "invalid index of a variable or category"},
    {MPI_T_ERR_INVALID_ITEM, "invalid item of an enumeration"},
    {MPI_T_ERR_INVALID_SESSION, "invalid session of the tool interface"},
    {MPI_T_ERR_INVALID_HANDLE, "invalid handle of the tool interface"},
    {MPI_T_ERR_INVALID_NAME, "no variable or category of that name"},
    {MPI_T_ERR_OUT_OF_HANDLES, "no more handles of the tool interface"},
    {MPI_T_ERR_OUT_OF_SESSIONS, "no more sessions of the tool interface"},
    {MPI_T_ERR_CVAR_SET_NOT_NOW, "the variable cannot be set now"},
    {MPI_T_ERR_CVAR_SET_NEVER, "the variable cannot be set"},
    {MPI_T_ERR_PVAR_NO_WRITE, "the variable cannot be written or reset"},
    {MPI_T_ERR_PVAR_NO_STARTSTOP, "the variable cannot be started or stopped"},
    {MPI_T_ERR_PVAR_NO_ATOMIC, "the variable cannot be read and reset at once"},
};

/* The text of a class of the standard's; NULL: there is no such class. Where
 * several errors have one class, the last of the list is the general one. */
static const char *class_text(int class)
{
    for (tb_err err = TB_ERR_LIMIT - 1; err >= 0; err--)
        if (classes[err] == class)
            return tb_err_text(err);
    for (size_t i = 0; i < TB_COUNT_OF(tool_texts); i++)
        if (tool_texts[i].class == class)
            return tool_texts[i].text;
    return NULL;
}

/* Under the lock: what the program added under this number, or NULL. */
static struct added *find_added(int code)
{
    int i = code - MPI_ERR_LASTCODE - 1;
    return i >= 0 && i < n_added && added[i].used ? &added[i] : NULL;
}

static bool is_class(int class)
{
    struct added *a = find_added(class);
    return a ? a->class == class : class_text(class) != NULL;
}

static int class_of(int code)
{
    struct added *a = find_added(code);
    if (a)
        return a->class;
    if (code < 0 || code > MPI_ERR_LASTCODE)
        return MPI_ERR_UNKNOWN;
    if (class_text(code))
        return code;
    int class = code & CLASS_MASK;
    return class && class_text(class) ? class : MPI_ERR_UNKNOWN;
}

tb_err tb_error_class(int errorcode, int *errorclass)
{
    pthread_mutex_lock(&lock);
    *errorclass = class_of(errorcode);
    pthread_mutex_unlock(&lock);
    return TB_OK;
}

/* Under the lock: NULL when the code means nothing. */
static const char *code_text(int code)
{
    struct added *a = find_added(code);
    if (a)
        return a->text ? a->text : "";
    if (code < 0 || code > MPI_ERR_LASTCODE)
        return NULL;
    const char *text = class_text(code);
    if (text)
        return text;
    int slot = code >> CLASS_BITS;
    int class = code & CLASS_MASK;
    if (slots[slot].class == class && slots[slot].text[0])
        return slots[slot].text;
    return class_text(class);
}

tb_err tb_error_string(int errorcode, char *string, int *resultlen)
{
    pthread_mutex_lock(&lock);
    const char *text = code_text(errorcode);
    if (text)
        *resultlen = snprintf(string, MPI_MAX_ERROR_STRING, "%s", text);
    else
        *resultlen = snprintf(string, MPI_MAX_ERROR_STRING,
                              "%d is not an error code", errorcode);
    pthread_mutex_unlock(&lock);
    return TB_OK;
}

/* --------------------------------------------- classes and codes added */

int tb_err_last_used(void)
{
    pthread_mutex_lock(&lock);
    int last = MPI_ERR_LASTCODE + n_added;
    pthread_mutex_unlock(&lock);
    return last;
}

/* Under the lock: takes the next number, class 0 standing for itself. */
static tb_err add(int class, int *number)
{
    if (n_added == room_added) {
        int room = room_added ? 2 * room_added : 16;
        struct added *more = tb_realloc(added, (size_t)room * sizeof *more);
        if (!more)
            return tb_fail(TB_ERR_NO_MEM,
                           "no memory for one more error code; "
                           "%d are in use",
                           n_added);
        added = more;
        room_added = room;
    }
    *number = MPI_ERR_LASTCODE + 1 + n_added;
    added[n_added++] =
        (struct added){.used = true, .class = class ? class : *number};
    return TB_OK;
}

tb_err tb_add_error_class(int *errorclass)
{
    pthread_mutex_lock(&lock);
    tb_err err = add(0, errorclass);
    pthread_mutex_unlock(&lock);
    return err;
}

tb_err tb_add_error_code(int errorclass, int *errorcode)
{
    tb_err err;

    pthread_mutex_lock(&lock);
    if (!is_class(errorclass)) {
        err = tb_fail(TB_ERR_ARG, "%d is not an error class", errorclass);
    } else {
        err = add(errorclass, errorcode);
        struct added *class = find_added(errorclass);
        if (!err && class)
            class->codes++;
    }
    pthread_mutex_unlock(&lock);
    return err;
}

static tb_err not_added(int code)
{
    return tb_fail(TB_ERR_ARG,
                   "%d is no error class or code that this program added",
                   code);
}

static tb_err add_string(int code, const char *string)
{
    struct added *a = find_added(code);
    if (!a)
        return not_added(code);
    char *text = tb_strdup(string);
    if (!text)
        return tb_fail(TB_ERR_NO_MEM, "no memory for an error string");
    tb_free(a->text);
    a->text = text;
    return TB_OK;
}

tb_err tb_add_error_string(int errorcode, const char *string)
{
    if (strlen(string) >= MPI_MAX_ERROR_STRING)
        return tb_fail(TB_ERR_ARG,
                       "the error string has %zu characters; the "
                       "most is %d",
                       strlen(string), MPI_MAX_ERROR_STRING - 1);
    pthread_mutex_lock(&lock);
    tb_err err = add_string(errorcode, string);
    pthread_mutex_unlock(&lock);
    return err;
}

/* The numbers at the end are used again, so that a program that adds and
 * removes for ever does not grow. */
static tb_err remove_added(int code, bool class)
{
    struct added *a = find_added(code);
    if (!a || (a->class == code) != class)
        return tb_fail(TB_ERR_ARG, "%d is no error %s that this program added",
                       code, class ? "class" : "code");
    if (a->codes)
        return tb_fail(TB_ERR_ARG,
                       "error class %d still has %d error codes: "
                       "remove them first",
                       code, a->codes);
    if (a->text)
        return tb_fail(TB_ERR_ARG,
                       "%d still has its error string: call "
                       "MPI_Remove_error_string first",
                       code);
    struct added *of = class ? NULL : find_added(a->class);
    if (of)
        of->codes--;
    a->used = false;
    while (n_added && !added[n_added - 1].used)
        n_added--;
    return TB_OK;
}

tb_err tb_remove_error_class(int errorclass)
{
    pthread_mutex_lock(&lock);
    tb_err err = remove_added(errorclass, true);
    pthread_mutex_unlock(&lock);
    return err;
}

tb_err tb_remove_error_code(int errorcode)
{
    pthread_mutex_lock(&lock);
    tb_err err = remove_added(errorcode, false);
    pthread_mutex_unlock(&lock);
    return err;
}

tb_err tb_remove_error_string(int errorcode)
{
    tb_err err = TB_OK;

    pthread_mutex_lock(&lock);
    struct added *a = find_added(errorcode);
    if (!a) {
        err = not_added(errorcode);
    } else if (!a->text) {
        err = tb_fail(TB_ERR_ARG, "%d has no error string", errorcode);
    } else {
        tb_free(a->text);
        a->text = NULL;
    }
    pthread_mutex_unlock(&lock);
    return err;
}
