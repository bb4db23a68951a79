/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the clients share: a dma-buf to register, what is in it, and how they
 * say that something went wrong.
 *
 * The buffer holds, between two guards, the areas that one side of a client
 * sends from and receives into. Where it is registered, the process has no
 * memory: an address that no load or store can reach. A library that falls
 * back to registering memory of the process fails, and so does one that
 * copies.
 */
#ifndef CLIENTS_BUFFER_H
#define CLIENTS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdnoreturn.h>

#include <linux/types.h>

#define AREAS		4
/* Neither the length of an area nor where one begins is a multiple of a page. */
#define AREA_SIZE	(32 * 4096 - 24)
#define MR_OFFSET	(3 * 4096 + 64)
#define MR_LENGTH	((size_t)AREAS * AREA_SIZE)
#define ROUNDS		16
#define LIMIT_MS	60000

/* Which side a pattern comes from. */
enum side { CLIENT, SERVER };

/**
 * struct buffer - a dma-buf of this process
 * @fd: the dma-buf
 * @control: the open /dev/vram_exporter, or -1 for a udmabuf
 * @size: in bytes
 * @cpu: where the process reads and writes it
 * @base: the address of its first byte as the RDMA device is told; nothing
 *	is mapped there
 */
struct buffer {
	int fd;
	int control;
	size_t size;
	unsigned char *cpu;
	char *base;
};

/* The program and the side, for messages: "fi_dmabuf client". */
extern const char *who;

/* Ends the program: the call, its errno (not negative), and what mends it. */
noreturn void fail(const char *call, int error, const char *remedy);

/* The same for a library that has words of its own for what went wrong. */
noreturn void fail_because(const char *call, const char *reason,
			   const char *remedy);

/* One line of what was done. */
#define say(format, ...) (printf("%s: " format "\n", who, ##__VA_ARGS__), fflush(stdout))

/*
 * A dma-buf of "udmabuf" or "vram"; the latter moves so many times a second
 * from now on, if that is not 0. Filled with what no pattern has.
 */
void buffer_create(struct buffer *buffer, const char *exporter,
		   unsigned int moves);

/* The address of an area as the RDMA device is told. */
void *buffer_area(const struct buffer *buffer, unsigned int area);

/* Writes the pattern of that side, area and round to an area. */
void buffer_fill(struct buffer *buffer, enum side from, unsigned int area,
		 unsigned int round);

/* Ends the program unless the area holds the pattern; says what was verified. */
void buffer_verify(struct buffer *buffer, const char *what, enum side from,
		   unsigned int area, unsigned int round);

/*
 * Ends the program unless the guards are as they were, and the buffer was
 * moved if it was to be; says how often it was.
 */
void buffer_finish(struct buffer *buffer, unsigned int moves);

#endif /* CLIENTS_BUFFER_H */
