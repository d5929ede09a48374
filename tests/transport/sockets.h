/* SPDX-License-Identifier: MIT */
/* Connected TCP sockets over loopback, for the tests of the tcp transport. */
#ifndef TB_TRANSPORT_SOCKETS_H
#define TB_TRANSPORT_SOCKETS_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit/check.h"

static inline void socket_pair(int *a, int *b)
{
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *at = (struct sockaddr *)&here;
    socklen_t bytes = sizeof(here);
    int door = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(door >= 0 && !bind(door, at, bytes) && !listen(door, 1));
    CHECK(!getsockname(door, at, &bytes));
    *a = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(*a >= 0 && !connect(*a, at, bytes));
    *b = accept(door, NULL, NULL);
    CHECK(*b >= 0);
    close(door);
}

#endif
