/* SPDX-License-Identifier: MIT */
/* Making a fabric from its description. */
#include "fabric/state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define WORDS 9 /* one more than any line may have */
#define LINE 512

/* ------------------------------------------------------ pieces of a line */

bool fab_parse_ip(const char *text, uint32_t *out)
{
    struct in_addr ip;

    if (inet_pton(AF_INET, text, &ip) != 1)
        return false;
    *out = ip.s_addr;
    return *out != 0;
}

/* Letters, digits, '.', '-' and '_': whatever prints a name need not quote. */
static tb_err copy_name(char *out, const char *text)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyz"
                               "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t length = strlen(text);

    if (length >= FAB_NAME || strspn(text, good) != length)
        return tb_fail(TB_ERR_ARG,
                       "'%.40s' is no name: at most %d letters, digits, "
                       "points, dashes and underscores",
                       text, FAB_NAME - 1);
    memcpy(out, text, length + 1);
    return TB_OK;
}

static tb_err find_host(const struct fab_state *s, const char *text,
                        uint32_t *out)
{
    uint64_t host;

    if (!fab_parse_count(text, FAB_HOSTS - 1, &host) || !s->host[host].name[0])
        return tb_fail(TB_ERR_ARG, "there is no host %.40s", text);
    *out = (uint32_t)host;
    return TB_OK;
}

tb_err fab_find_cable(const struct fab_state *s, const char *text, int *out)
{
    uint64_t cable;

    if (!fab_parse_count(text, FAB_CABLES - 1, &cable) || cable >= s->cables)
        return tb_fail(TB_ERR_ARG, "there is no cable '%.40s'", text);
    *out = (int)cable;
    return TB_OK;
}

static tb_err add_host(struct fab_state *s, char *const *word)
{
    uint64_t host;

    if (!fab_parse_count(word[1], FAB_HOSTS - 1, &host))
        return tb_fail(TB_ERR_ARG, "a host's number is 0 to %d, not '%.40s'",
                       FAB_HOSTS - 1, word[1]);
    if (s->host[host].name[0])
        return tb_fail(TB_ERR_ARG, "host %.40s stands here twice", word[1]);
    TB_TRY(copy_name(s->host[host].name, word[2]));
    s->hosts = TB_MAX(s->hosts, (uint32_t)host + 1);
    return TB_OK;
}

/* word: host, device, address. */
static tb_err add_device(struct fab_state *s, char *const *word)
{
    uint32_t number = s->devices, ip = 0;
    struct fab_device *d = &s->device[number];

    TB_TRY(find_host(s, word[0], &d->host));
    TB_TRY(copy_name(d->name, word[1]));
    if (strcmp(word[2], "-") && !fab_parse_ip(word[2], &ip))
        return tb_fail(TB_ERR_ARG,
                       "'%.40s' is neither an IPv4 address nor '-' for none",
                       word[2]);
    for (uint32_t i = 0; i < number; i++) {
        if (s->device[i].host == d->host && !strcmp(s->device[i].name, d->name))
            return tb_fail(TB_ERR_ARG, "host %s has two devices %s", word[0],
                           word[1]);
    }
    d->cable = s->cables;
    d->peer = number ^ 1u; /* devices come in pairs */
    d->lid = 1 + (number & 1u);
    atomic_init(&d->ip, ip);
    atomic_init(&d->gid_index, 1);
    atomic_init(&d->up, 1);
    s->devices++;
    return TB_OK;
}

static tb_err add_cable(struct fab_state *s, char *const *word)
{
    struct fab_cable *cable = &s->cable[s->cables];
    uint64_t number;

    if (s->cables == FAB_CABLES)
        return tb_fail(TB_ERR_ARG, "a fabric has at most %d cables",
                       FAB_CABLES);
    if (!fab_parse_count(word[1], FAB_CABLES, &number) || number != s->cables)
        return tb_fail(TB_ERR_ARG,
                       "cables are numbered in order: this is %u, not '%.40s'",
                       s->cables, word[1]);
    cable->device[0] = s->devices;
    cable->device[1] = s->devices + 1;
    TB_TRY(add_device(s, word + 2));
    TB_TRY(add_device(s, word + 5));
    if (s->device[s->devices - 1].host == s->device[s->devices - 2].host)
        return tb_fail(TB_ERR_ARG, "cable %s has both ends on host %s", word[1],
                       word[2]);
    s->cables++;
    return TB_OK;
}

/* ----------------------------------------------------------------- lines */

tb_err fab_set(struct fab_state *s, const char *name, const char *value,
               int cable)
{
    static const uint64_t most[FAB_SW_LIMIT] = {
        [FAB_SW_qp_max] = FAB_QPS, [FAB_SW_pd_max] = FAB_PDS,
        [FAB_SW_cq_max] = FAB_CQS, [FAB_SW_mr_max] = FAB_MRS,
        [FAB_SW_gid_index] = 15,
    };
    int which = fab_switch_find(name);
    uint64_t number;

    if (which < 0)
        return tb_fail(TB_ERR_ARG,
                       "there is no switch '%.40s'; tbmpi-fabric switches "
                       "lists them",
                       name);
    TB_TRY(fab_switch_parse(which, value, &number));
    if (most[which] && number > most[which])
        return tb_fail(TB_ERR_ARG, "%s is at most %u", name,
                       (unsigned)most[which]);
    if (cable >= 0 && which >= FAB_WIRE_SWITCHES)
        return tb_fail(TB_ERR_ARG, "%s is not a matter of one cable", name);
    if (cable >= 0) {
        s->cable[cable].wire[which] = number;
        return TB_OK;
    }
    s->sw[which] = number;
    for (int i = 0; which < FAB_WIRE_SWITCHES && i < FAB_CABLES; i++)
        s->cable[i].wire[which] = number;
    for (uint32_t i = 0; which == FAB_SW_gid_index && i < s->devices; i++)
        s->device[i].gid_index = (uint32_t)number;
    return TB_OK;
}

static tb_err use_line(struct fab_state *s, int count, char *const *word)
{
    int cable = -1;

    if (!strcmp(word[0], "host") && count == 3)
        return add_host(s, word);
    if (!strcmp(word[0], "cable") && count == 8)
        return add_cable(s, word);
    if (!strcmp(word[0], "set") && (count == 3 || count == 4)) {
        if (count == 4)
            TB_TRY(fab_find_cable(s, word[3], &cable));
        return fab_set(s, word[1], word[2], cable);
    }
    return tb_fail(TB_ERR_ARG,
                   "a line is 'host NUMBER NAME', 'cable NUMBER HOST DEVICE "
                   "ADDRESS HOST DEVICE ADDRESS', or 'set SWITCH VALUE "
                   "[CABLE]'");
}

/* Up to WORDS words of a line, which is cut into pieces. */
static int split(char *line, char **word)
{
    int count = 0;

    for (char *rest = NULL, *p = strtok_r(line, " \t\r", &rest);
         p && count < WORDS; p = strtok_r(NULL, " \t\r", &rest))
        word[count++] = p;
    return count;
}

static tb_err read_line(struct fab_state *s, const char *text, size_t length)
{
    char line[LINE], *word[WORDS];
    int count;

    if (length >= sizeof(line))
        return tb_fail(TB_ERR_ARG, "the line is longer than %d characters",
                       LINE - 1);
    memcpy(line, text, length);
    line[length] = 0;
    line[strcspn(line, "#")] = 0;
    count = split(line, word);
    return count ? use_line(s, count, word) : TB_OK;
}

static tb_err give_defaults(struct fab_state *s)
{
    for (int i = 0; i < FAB_SW_LIMIT; i++)
        TB_TRY(fab_set(s, fab_switch_rows[i].name, fab_switch_rows[i].def, -1));
    return TB_OK;
}

tb_err fab_describe(struct fab_state *s, const char *text)
{
    TB_TRY(give_defaults(s));
    for (int number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");
        tb_err err = read_line(s, text, length);
        if (err) {
            char note[256];
            snprintf(note, sizeof(note), "%s", tb_fail_note());
            return tb_fail(err, "line %d: %s", number, note);
        }
        text += length + (text[length] == '\n');
    }
    if (!s->cables)
        return tb_fail(TB_ERR_ARG, "the description has no cable");
    /* Devices that came after the switch. */
    for (uint32_t i = 0; i < s->devices; i++)
        s->device[i].gid_index = (uint32_t)s->sw[FAB_SW_gid_index];
    return TB_OK;
}

/* ------------------------------------------------------------------ file */

/* The head is written, the rest is a hole: it takes no room until used. */
static tb_err write_file(int fd, const struct fab_state *s, const char *path)
{
    const char *p = (const char *)s;
    size_t left = offsetof(struct fab_state, device) +
                  s->devices * sizeof(struct fab_device);

    if (ftruncate(fd, (off_t)s->bytes))
        return tb_fail_errno("cannot give %s a size of %llu MiB", path,
                             (unsigned long long)s->bytes >> 20);
    while (left) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return tb_fail_errno("cannot write %s", path);
        p += n;
        left -= (size_t)n;
    }
    return TB_OK;
}

tb_err fab_create(const char *path, const char *text)
{
    struct fab_state *s =
        tb_alloc_aligned(_Alignof(struct fab_state), sizeof(*s));
    tb_err err;
    int fd;

    if (!s)
        return tb_fail(TB_ERR_NO_MEM, "no memory");
    memset(s, 0, sizeof(*s));
    err = fab_describe(s, text);
    if (!err) {
        fab_stamp(s);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) {
            err = tb_fail_errno("cannot make the fabric %s", path);
        } else {
            err = write_file(fd, s, path);
            close(fd);
            if (err)
                unlink(path);
        }
    }
    tb_free(s);
    return err;
}
