/* SPDX-License-Identifier: MIT */
/* tbmpi-fabric: makes, shows and disturbs a fabric. */
#include "fabric/show.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTION_MOST ((size_t)1 << 20)
#define EXIT_USAGE 2

#if defined(__APPLE__)
#define LIBRARY "libtbmpi_fabric.dylib"
#define SEARCH "DYLD_LIBRARY_PATH"
#define PRELOAD "DYLD_INSERT_LIBRARIES"
#else
#define LIBRARY "libtbmpi_fabric.so"
#define SEARCH "LD_LIBRARY_PATH"
#define PRELOAD "LD_PRELOAD"
#endif

static const char usage[] =
    "usage: tbmpi-fabric COMMAND ...\n"
    "\n"
    "  create FILE            make a fabric from the description on standard "
    "input\n"
    "  show FILE [--json]     cables, what is held by whom, counters, "
    "switches\n"
    "  check FILE             exit code 1 if anything is held or leaked\n"
    "  fault FILE FAULT...    disturb it, see below\n"
    "  switches               list all switches with their defaults\n"
    "  env FILE HOST          print what to export for programs on that host\n"
    "  run FILE HOST PROGRAM [ARGUMENT...]\n"
    "                         run any verbs program there, also one that is\n"
    "                         linked with libibverbs or opens librdma.dylib\n"
    "\n"
    "A description has a line for each thing; '#' begins a comment:\n"
    "  host NUMBER NAME\n"
    "  cable NUMBER HOST DEVICE ADDRESS HOST DEVICE ADDRESS\n"
    "  set SWITCH VALUE [CABLE]\n"
    "An address is IPv4, or '-' for none.\n"
    "\n"
    "Faults:\n";

static int complain(void)
{
    fprintf(stderr, "tbmpi-fabric: %s\n", tb_fail_note());
    return EXIT_FAILURE;
}

/* --------------------------------------------------------------- commands */

static int create(int count, char **word)
{
    char *text = malloc(DESCRIPTION_MOST + 1);
    size_t n;
    tb_err err;

    (void)count;
    if (!text)
        return EXIT_FAILURE;
    n = fread(text, 1, DESCRIPTION_MOST + 1, stdin);
    if (n > DESCRIPTION_MOST || memchr(text, 0, n)) {
        err = tb_fail(TB_ERR_ARG, "the description is no text, or longer than "
                                  "a megabyte");
    } else {
        text[n] = 0;
        err = fab_create(word[0], text);
    }
    free(text);
    return err ? complain() : EXIT_SUCCESS;
}

static tb_err enter(const char *path, struct fab_map **map)
{
    tb_err err;

    TB_TRY(fab_attach(path, map));
    err = fab_lock(*map);
    if (err)
        fab_release(*map);
    else
        fab_reap(*map);
    return err;
}

static void leave(struct fab_map *map)
{
    fab_unlock(map);
    fab_release(map);
}

static int show(int count, char **word)
{
    struct fab_map *map;

    if (count == 2 && strcmp(word[1], "--json")) {
        fprintf(stderr,
                "tbmpi-fabric: show takes a file and --json, not "
                "'%s'\n",
                word[1]);
        return EXIT_USAGE;
    }
    if (enter(word[0], &map))
        return complain();
    if (count == 2)
        fab_show_json(map->s, stdout);
    else
        fab_show(map->s, stdout);
    leave(map);
    return EXIT_SUCCESS;
}

static int check(int count, char **word)
{
    struct fab_map *map;
    uint32_t things;

    (void)count;
    if (enter(word[0], &map))
        return complain();
    things = fab_show_held(map->s, stdout);
    leave(map);
    return things ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int fault(int count, char **word)
{
    return fab_fault(word[0], count - 1, word + 1) ? complain() : EXIT_SUCCESS;
}

static int switches(int count, char **word)
{
    (void)count, (void)word;
    fab_show_switches(stdout);
    return EXIT_SUCCESS;
}

/* ------------------------------------------------------ env and run */

/* What a program needs to find itself on a host of a fabric. */
struct place {
    char file[PATH_MAX];
    char host[16];
    char library[PATH_MAX];
    char folder[PATH_MAX + 8]; /* with librdma.dylib in it */
};

/* The library lies beside us: in ../lib when installed. */
static tb_err find_library(const char *self, char *out)
{
    static const char *const beside[] = {"/../lib/" LIBRARY, "/" LIBRARY};
    char here[PATH_MAX], name[PATH_MAX + 64], *slash;

    if (!realpath(self, here))
        return tb_fail_errno("cannot find %s, which is asked for by its path",
                             self);
    slash = strrchr(here, '/');
    *slash = 0;
    for (size_t i = 0; i < TB_COUNT_OF(beside); i++) {
        snprintf(name, sizeof(name), "%s%s", here, beside[i]);
        if (realpath(name, out))
            return TB_OK;
    }
    return tb_fail(TB_ERR_SYSTEM, "%s is not beside %s", LIBRARY, here);
}

/* Whoever opens librdma.dylib by that bare name finds the fabric's in a
 * folder of the search path. */
static tb_err make_folder(struct place *p)
{
    char link[PATH_MAX + 32];

    snprintf(p->folder, sizeof(p->folder), "%s.lib", p->file);
    if (mkdir(p->folder, 0700) && errno != EEXIST)
        return tb_fail_errno("cannot make the folder %s", p->folder);
    snprintf(link, sizeof(link), "%s/librdma.dylib", p->folder);
    if (symlink(p->library, link) && errno != EEXIST)
        return tb_fail_errno("cannot make the link %s", link);
    return TB_OK;
}

static tb_err find_place(struct place *p, char **word)
{
    struct fab_map *map;
    uint64_t host;
    bool there;

    if (!realpath(word[0], p->file))
        return tb_fail_errno("cannot find the fabric %s", word[0]);
    TB_TRY(fab_attach(p->file, &map));
    there = fab_parse_count(word[1], FAB_HOSTS - 1, &host) &&
            map->s->host[host].name[0];
    fab_release(map);
    if (!there)
        return tb_fail(TB_ERR_ARG, "the fabric %s has no host '%.40s'", word[0],
                       word[1]);
    snprintf(p->host, sizeof(p->host), "%u", (unsigned)host);
    return make_folder(p);
}

/* In front of what is there already. */
static void prepend(const char *name, const char *value, char *out, size_t room)
{
    const char *old = getenv(name);

    snprintf(out, room, "%s%s%s", value, old && *old ? ":" : "",
             old ? old : "");
}

static int env(const char *self, char **word)
{
    struct place p;

    if (find_library(self, p.library) || find_place(&p, word))
        return complain();
    printf("export TBMPI_FABRIC='%s'\nexport TBMPI_FABRIC_HOST=%s\n"
           "export TBMPI_LIBRDMA='%s'\n"
           "export %s='%s'${%s:+:$%s}\nexport %s='%s'\n",
           p.file, p.host, p.library, SEARCH, p.folder, SEARCH, SEARCH, PRELOAD,
           p.library);
    return EXIT_SUCCESS;
}

static int run(const char *self, char **word)
{
    char path[2 * PATH_MAX];
    struct place p;

    if (find_library(self, p.library) || find_place(&p, word))
        return complain();
    setenv("TBMPI_FABRIC", p.file, 1);
    setenv("TBMPI_FABRIC_HOST", p.host, 1);
    setenv("TBMPI_LIBRDMA", p.library, 1);
    prepend(SEARCH, p.folder, path, sizeof(path));
    setenv(SEARCH, path, 1);
    prepend(PRELOAD, p.library, path, sizeof(path));
    setenv(PRELOAD, path, 1);
    execvp(word[2], word + 2);
    tb_fail_errno("cannot run %s", word[2]);
    return complain();
}

static const struct {
    const char *name;
    int least, most;
    int (*run)(int count, char **word);
    int (*run_beside)(const char *self, char **word);
} commands[] = {
    {"create", 1, 1, create, NULL},     {"show", 1, 2, show, NULL},
    {"check", 1, 1, check, NULL},       {"fault", 2, 8, fault, NULL},
    {"switches", 0, 0, switches, NULL}, {"env", 2, 2, NULL, env},
    {"run", 3, INT_MAX, NULL, run},
};

int main(int argc, char **argv)
{
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        printf("%s%s", usage, fab_fault_help);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; argc > 1 && i < TB_COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name))
            continue;
        if (argc - 2 < commands[i].least || argc - 2 > commands[i].most)
            break;
        if (commands[i].run)
            return commands[i].run(argc - 2, argv + 2);
        return commands[i].run_beside(argv[0], argv + 2);
    }
    fprintf(stderr, "%s%s", usage, fab_fault_help);
    return EXIT_USAGE;
}
