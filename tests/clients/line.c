// SPDX-License-Identifier: GPL-2.0-only
/* A TCP connection over which two sides tell each other what is not RDMA. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "buffer.h"
#include "line.h"

static void limit_waits(int line)
{
	struct timeval limit = { .tv_sec = LIMIT_MS / 1000 };

	if (setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		fail("SO_RCVTIMEO", errno, "report this");
}

int line_open(bool serves, const char *address, const char *port)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int line = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), listener, yes = 1;

	if (line < 0)
		fail("socket", errno, "the kernel needs CONFIG_INET");
	if (inet_pton(AF_INET, address, &name.sin_addr) != 1)
		fail(address, EINVAL, "give an IPv4 address");
	limit_waits(line);
	if (!serves) {
		if (connect(line, (struct sockaddr *)&name, sizeof(name)))
			fail("connect", errno, "does the server run?");
		return line;
	}
	listener = line;
	if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) ||
	    bind(listener, (struct sockaddr *)&name, sizeof(name)) || listen(listener, 1))
		fail("listen", errno, "is the port in use?");
	say("listening");
	line = accept(listener, NULL, NULL);
	if (line < 0)
		fail("accept", errno, "does the client run?");
	limit_waits(line);
	close(listener);
	return line;
}

void line_exchange(int line, const void *mine, void *other, size_t length)
{
	ssize_t sent = send(line, mine, length, MSG_NOSIGNAL);
	ssize_t received = recv(line, other, length, MSG_WAITALL);

	if (sent != (ssize_t)length || received != (ssize_t)length)
		fail("exchange with the other side", received < 0 ? errno : EPIPE,
		     "see what the other side says");
}

void line_meet(int line)
{
	char mine = 'x', other;

	line_exchange(line, &mine, &other, sizeof(mine));
}
