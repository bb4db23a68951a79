/* SPDX-License-Identifier: GPL-2.0-only */
/* A TCP connection over which two sides tell each other what is not RDMA. */
#ifndef CLIENTS_LINE_H
#define CLIENTS_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Waits for the other side, or goes to it; ends the program if that fails. */
int line_open(bool serves, const char *address, const char *port);

/* Sends as many bytes as it then receives; ends the program if that fails. */
void line_exchange(int line, const void *mine, void *other, size_t length);

/* Both sides get here before either goes on. */
void line_meet(int line);

#endif /* CLIENTS_LINE_H */
