/* SPDX-License-Identifier: GPL-2.0-only */
/* What the environment asks of librdmabuf-mr.so, and what that tells about it. */
#ifndef _PRELOAD_SETTINGS_H
#define _PRELOAD_SETTINGS_H

#include "backing.h"

struct ibv_pd;

/**
 * struct request - a registration as the program asks for it
 * @function: what it has called
 * @pd: protection domain
 * @addr: of the memory
 * @length: of the memory
 * @iova: what the device calls @addr
 * @access: flags
 * @has_more: whether there is something that is none of the above
 */
struct request {
	const char *function;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;
	unsigned int access;
	bool has_more;
};

/**
 * struct settings - what the environment asks for
 * @exporter: where buffers come from
 * @moves: how often a second each is moved
 * @is_strict: whether a refused registration has failed
 * @log: fd for a line about each registration, or -1
 * @mistake: what is wrong with the environment, or NULL
 */
struct settings {
	const struct exporter *exporter;
	unsigned int moves;
	bool is_strict;
	int log;
	const char *mistake;
};

extern struct settings settings;

void settings_read(void);

/* One line about a registration that has ended with @err, 0 or an errno. */
void report_registration(const struct request *request,
			 const struct pages *pages, int err);

#endif /* _PRELOAD_SETTINGS_H */
