/* SPDX-License-Identifier: MIT */
/*
 * A launcher for tests: starts `size` children of this program, serves them
 * PMI-1 over socket pairs until all have ended, and can misbehave.
 */
#ifndef TB_PMI_SERVER_H
#define TB_PMI_SERVER_H

#include "base/base.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "unit/check.h"

#define PMI_RANKS 16
#define PMI_VALUES 512

struct pmi_server {
    /* Set before pmi_run. */
    int size;
    int value_max;     /* what get_maxes answers; 0: 1024 */
    const char *hello; /* instead of the answer to init; NULL: the right one */
    bool mute;         /* answers nothing */
    int die_at;        /* close all connections at this many lines; 0: never */
    void (*child)(int rank);
    void (*prepare)(int rank); /* in the child, before `child`; may be NULL */
    /* Results. */
    int status[PMI_RANKS]; /* as of waitpid */
    int aborted;           /* exit code of an abort, or -1 */
    int finalized;
    int puts;
    /* Working state. */
    int fds[PMI_RANKS];
    pid_t pids[PMI_RANKS];
    int waiting;
    int lines;
    char keys[PMI_VALUES][64];
    char values[PMI_VALUES][2100];
    int stored;
};

static inline void pmi_say(int fd, const char *text)
{
    /* A child that has gone needs no answer. */
    (void)!send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static inline void pmi_field(const char *line, const char *key, char *out,
                             size_t room)
{
    const char *p = strstr(line, key);

    out[0] = 0;
    if (p) {
        p += strlen(key);
        snprintf(out, room, "%.*s", (int)strcspn(p, " \n"), p);
    }
}

static inline void pmi_put(struct pmi_server *s, int fd, const char *line)
{
    CHECK(s->stored < PMI_VALUES);
    pmi_field(line, " key=", s->keys[s->stored], sizeof(s->keys[0]));
    pmi_field(line, " value=", s->values[s->stored], sizeof(s->values[0]));
    CHECK(!s->value_max || strlen(s->values[s->stored]) < (size_t)s->value_max);
    s->stored++;
    s->puts++;
    pmi_say(fd, "cmd=put_result rc=0 msg=success\n");
}

static inline void pmi_get(struct pmi_server *s, int fd, const char *line)
{
    char key[64], answer[2200];

    pmi_field(line, " key=", key, sizeof(key));
    snprintf(answer, sizeof(answer), "cmd=get_result rc=-1 msg=unknown\n");
    for (int i = 0; i < s->stored; i++) {
        if (!strcmp(s->keys[i], key))
            snprintf(answer, sizeof(answer),
                     "cmd=get_result rc=0 msg=success value=%s\n",
                     s->values[i]);
    }
    pmi_say(fd, answer);
}

static inline void pmi_line(struct pmi_server *s, int rank, const char *line)
{
    int fd = s->fds[rank];
    char text[128], cmd[32];

    pmi_field(line, "cmd=", cmd, sizeof(cmd));
    s->lines++;
    if (s->mute)
        return;
    if (!strcmp(cmd, "init")) {
        pmi_say(fd, s->hello ? s->hello
                             : "cmd=response_to_init pmi_version=1 "
                               "pmi_subversion=1 rc=0\n");
    } else if (!strcmp(cmd, "get_maxes")) {
        snprintf(text, sizeof(text),
                 "cmd=maxes kvsname_max=64 keylen_max=64 vallen_max=%d\n",
                 s->value_max ? s->value_max : 1024);
        pmi_say(fd, text);
    } else if (!strcmp(cmd, "get_my_kvsname")) {
        pmi_say(fd, "cmd=my_kvsname kvsname=kvs_0\n");
    } else if (!strcmp(cmd, "get_appnum")) {
        pmi_say(fd, "cmd=appnum appnum=0\n");
    } else if (!strcmp(cmd, "get_universe_size")) {
        snprintf(text, sizeof(text), "cmd=universe_size size=%d\n", s->size);
        pmi_say(fd, text);
    } else if (!strcmp(cmd, "put")) {
        pmi_put(s, fd, line);
    } else if (!strcmp(cmd, "get")) {
        pmi_get(s, fd, line);
    } else if (!strcmp(cmd, "barrier_in")) {
        if (++s->waiting == s->size) {
            s->waiting = 0;
            for (int i = 0; i < s->size; i++)
                pmi_say(s->fds[i], "cmd=barrier_out rc=0\n");
        }
    } else if (!strcmp(cmd, "finalize")) {
        s->finalized++;
        pmi_say(fd, "cmd=finalize_ack\n");
    } else if (!strcmp(cmd, "abort")) {
        pmi_field(line, "exitcode=", text, sizeof(text));
        s->aborted = atoi(text);
    } else {
        CHECK(!"a command of PMI-1");
    }
}

static inline void pmi_start(struct pmi_server *s, int rank)
{
    int pair[2];
    char text[16];

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    s->pids[rank] = fork();
    CHECK(s->pids[rank] >= 0);
    if (s->pids[rank] == 0) {
        tb_follow_parent();
        for (int i = 0; i < rank; i++)
            close(s->fds[i]);
        close(pair[0]);
        snprintf(text, sizeof(text), "%d", pair[1]);
        setenv("PMI_FD", text, 1);
        snprintf(text, sizeof(text), "%d", rank);
        setenv("PMI_RANK", text, 1);
        snprintf(text, sizeof(text), "%d", s->size);
        setenv("PMI_SIZE", text, 1);
        if (s->prepare)
            s->prepare(rank);
        s->child(rank);
        exit(0);
    }
    close(pair[1]);
    s->fds[rank] = pair[0];
}

/* Reads what there is of one connection; false at its end. Lines come whole:
 * a client sends each in one piece and waits for the answer. */
static inline bool pmi_serve(struct pmi_server *s, int rank)
{
    char text[8192], *line, *rest;
    ssize_t n = recv(s->fds[rank], text, sizeof(text) - 1, 0);

    if (n <= 0)
        return false;
    text[n] = 0;
    for (line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest))
        pmi_line(s, rank, line);
    return true;
}

static inline void pmi_run(struct pmi_server *s)
{
    int open = s->size;

    s->aborted = -1;
    for (int i = 0; i < s->size; i++)
        pmi_start(s, i);
    while (open > 0) {
        struct pollfd p[PMI_RANKS];
        for (int i = 0; i < s->size; i++)
            p[i] = (struct pollfd){s->fds[i], POLLIN, 0};
        poll(p, (nfds_t)s->size, -1);
        for (int i = 0; i < s->size; i++) {
            if (p[i].revents && !pmi_serve(s, i)) {
                close(s->fds[i]);
                s->fds[i] = -1;
                open--;
            }
        }
        for (int i = 0; s->die_at && s->lines >= s->die_at && i < s->size;
             i++) {
            if (s->fds[i] >= 0) {
                close(s->fds[i]);
                s->fds[i] = -1;
                open--;
            }
        }
    }
    for (int i = 0; i < s->size; i++)
        CHECK(waitpid(s->pids[i], &s->status[i], 0) == s->pids[i]);
}

static inline void pmi_all_ok(const struct pmi_server *s)
{
    for (int i = 0; i < s->size; i++)
        CHECK_EQ(s->status[i], 0);
    CHECK_EQ(s->finalized, s->size);
    CHECK_EQ(s->aborted, -1);
}

#endif
