/* SPDX-License-Identifier: MIT */
/* Connected stream sockets that never block. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS has SO_NOSIGPIPE instead */
#endif

/* Only a TCP socket knows these; another kind refuses, which is no harm. */
static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

tb_err tb_stream_keep(int fd, int dead_after_s)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
        fcntl(fd, F_SETFD, FD_CLOEXEC))
        return tb_fail_errno("descriptor %d", fd);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(__APPLE__)
    set(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, dead_after_s);
#else
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
#endif
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, TB_MAX(dead_after_s - 1, 1));
    return TB_OK;
}

tb_err tb_stream_prepare(int fd, int dead_after_s)
{
    TB_TRY(tb_stream_keep(fd, dead_after_s));
#if !defined(__APPLE__)
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, dead_after_s * 1000);
#endif
    return TB_OK;
}

bool tb_stream_silent(int fd, int seconds)
{
#if defined(__APPLE__)
    (void)fd, (void)seconds; /* TCP_RXT_CONNDROPTIME ends the connection */
    return false;
#else
    struct tcp_info info = {0};
    socklen_t bytes = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes))
        return false;
    return (info.tcpi_retransmits > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv > (uint32_t)seconds * 1000;
#endif
}

static long outcome(ssize_t n)
{
    if (n > 0)
        return n;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return 0;
    return -1;
}

long tb_stream_read(int fd, void *to, size_t room)
{
    return outcome(recv(fd, to, room, 0));
}

long tb_stream_write(int fd, const void *from, size_t bytes)
{
    return outcome(send(fd, from, bytes, MSG_NOSIGNAL));
}

long tb_stream_gather(int fd, const struct tb_span *spans, int n)
{
    struct iovec parts[TB_SPANS_MOST];
    struct msghdr message = {.msg_iov = parts};

    for (int i = 0; i < n; i++)
        parts[i] =
            (struct iovec){(void *)(uintptr_t)spans[i].data, spans[i].bytes};
    message.msg_iovlen = (size_t)n;
    return outcome(sendmsg(fd, &message, MSG_NOSIGNAL));
}

void tb_stream_close(int fd)
{
    char rest[4096];

    /* What the peer still says must not make the system reset the connection,
     * which could take our last words with it. */
    shutdown(fd, SHUT_WR);
    while (tb_stream_read(fd, rest, sizeof(rest)) > 0)
        continue;
    close(fd);
}
