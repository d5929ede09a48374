/* SPDX-License-Identifier: MIT */
/* The emulated fabric: its description, its faults in words, and its file. */
#include "fabric/state.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "fuzz/fuzz.h"

static const char description[] =
    "host 0 mac0\nhost 1 mac1\nhost 2 mac2\n"
    "cable 0 0 rdma_en2 169.254.1.1 1 rdma_en2 169.254.1.2\n"
    "cable 1 1 rdma_en3 169.254.2.1 2 rdma_en2 169.254.2.2\n"
    "set latency 5us\nset rate 8.9\nset loss 1%\nset depth half\n";

static const char *const faults[] = {
    "pull 0",       "pull 1 segv",    "plug 0",      "drop 1% 0",
    "corrupt 0.1%", "delay 5% 300us", "set loss 2%", "port mac0 rdma_en2 down",
    "reboot mac1",  "leak mac0",      "address 0 1", "drop 1% 0 1 2 3 4",
};

static char path[64];

static void fuzz_example(struct fuzz *f)
{
    if (fuzz_below(f, 8)) /* faults need a file, which takes its time */
        fuzz_add_text(f, description);
    else
        fuzz_add_text(f, faults[fuzz_below(f, TB_COUNT_OF(faults))]);
}

static void try_description(const char *text)
{
    struct fab_state *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(s != MAP_FAILED);
    if (fab_describe(s, text)) {
        CHECK(*tb_fail_note());
    } else {
        CHECK(s->hosts <= FAB_HOSTS && s->devices <= FAB_DEVICES);
        for (uint32_t d = 0; d < s->devices; d++) {
            CHECK(s->device[d].cable < s->cables);
            CHECK(s->device[d].peer < s->devices);
        }
    }
    munmap(s, sizeof(*s));
}

static void try_fault(char *text)
{
    char *words[8], *rest = text;
    int n = 0;

    while (n < 8 && (words[n] = strtok_r(rest, " \n", &rest)))
        n++;
    if (fab_fault(path, n, words))
        CHECK(*tb_fail_note());
}

/* The file's head, changed: it is refused, or it is a fabric of this build. */
static void try_file(struct fuzz *f)
{
    struct fab_map *map;
    uint64_t value = fuzz_number(f, 8);
    int fd = open(path, O_RDWR | O_CLOEXEC);

    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, &value, sizeof(value), (off_t)(4 * fuzz_below(f, 32))),
             sizeof(value));
    close(fd);
    if (fab_attach(path, &map))
        CHECK(*tb_fail_note());
    else
        fab_release(map);
}

static void fuzz_try(struct fuzz *f)
{
    char *text = (char *)f->data;
    bool whole = !strncmp(text, "host", 4);

    if (whole)
        try_description(text);
    if (whole && fuzz_below(f, 32))
        return;
    snprintf(path, sizeof(path), "/tmp/tbmpi-fuzz-%ld", (long)getpid());
    CHECK_EQ(fab_create(path, description), TB_OK);
    if (whole)
        try_file(f);
    else
        try_fault(text);
    unlink(path);
}
