/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory that has a dma-buf, from one of several exporters. */
#ifndef _PRELOAD_BUFFER_H
#define _PRELOAD_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a program finds in the libraries; all else is hidden. */
#define EXPORT __attribute__((visibility("default")))

#define PAGE_BYTES 4096UL

struct exporter;

/**
 * struct buffer - memory that has a dma-buf
 * @exporter: where it is from
 * @size: in bytes, whole pages
 * @dmabuf: its dma-buf
 * @memory: what mmap() takes to map it: the memfd of a udmabuf, else @dmabuf
 * @control: the file that holds its move loop, or -1
 */
struct buffer {
	const struct exporter *exporter;
	size_t size;
	int dmabuf;
	int memory;
	int control;
};

/**
 * exporter_find() - an exporter by its name
 * @name: "udmabuf", "heap" or "vram"; NULL is udmabuf
 *
 * Return: the exporter, or NULL if there is none of that name.
 */
const struct exporter *exporter_find(const char *name);
const char *exporter_name(const struct exporter *exporter);
/* Whether its buffers can move, and whether buffer_fill() takes them. */
bool exporter_moves(const struct exporter *exporter);
bool exporter_fills(const struct exporter *exporter);

/**
 * buffer_make() - make a buffer
 * @buffer: is filled in
 * @exporter: where it comes from
 * @size: in bytes; rounded up to whole pages
 * @moves: how often a second the exporter is to move it, or 0
 * @step: what has failed, in words, if it fails
 *
 * Return: 0 or a negative errno.
 */
int buffer_make(struct buffer *buffer, const struct exporter *exporter,
		size_t size, unsigned int moves, const char **step);

/**
 * buffer_fill() - copy memory of this process to the start of a buffer
 * @buffer: of an exporter that fills
 * @from: the memory
 * @length: at most the size of the buffer
 *
 * Memory that cannot be read is an error and no signal.
 *
 * Return: 0 or a negative errno.
 */
int buffer_fill(const struct buffer *buffer, const void *from, size_t length);

/* Closes its files; the memory stays as long as it is mapped or registered. */
void buffer_close(struct buffer *buffer);

/**
 * setting_moves() - how often a second buffers are to be moved
 * @name: of the variable of the environment
 * @moves: is filled in; 0 if it is not set
 *
 * Return: whether it is a number that the exporter takes.
 */
bool setting_moves(const char *name, unsigned int *moves);

#endif /* _PRELOAD_BUFFER_H */
