/* SPDX-License-Identifier: GPL-2.0-only */
/* Buffers that have taken the place of a program's own memory. */
#ifndef _PRELOAD_BACKING_H
#define _PRELOAD_BACKING_H

#include "buffer.h"

struct backing;
struct ibv_mr;
struct user;

/**
 * struct pages - the pages of a registration
 * @start: address of the first
 * @end: behind the last
 * @is_written: whether the device may write to them
 * @prot: how they are mapped
 * @backing: the buffer that all of them belong to, or NULL
 * @offset: of @start in that buffer
 * @obstacle: why they cannot be had, in words
 */
struct pages {
	uintptr_t start;
	uintptr_t end;
	bool is_written;
	int prot;
	struct backing *backing;
	uint64_t offset;
	const char *obstacle;
};

/**
 * backing_find() - look at what is behind pages
 * @pages: start, end and is_written are given, the rest is filled in
 *
 * Return: 0 if there is a buffer behind all of them, or ordinary memory that
 * a buffer can replace; else a negative errno.
 */
int backing_find(struct pages *pages);

/**
 * backing_make() - a buffer for pages, not in their place yet
 * @pages: as backing_find() left them; backing and offset are filled in
 * @exporter: where it comes from
 * @moves: how often a second it is to be moved
 *
 * Return: 0 or a negative errno.
 */
int backing_make(struct pages *pages, const struct exporter *exporter,
		 unsigned int moves);

/**
 * backing_place() - put a buffer in the place of its pages, with their content
 * @pages: as backing_make() left them
 *
 * What another thread writes to the pages meanwhile is lost.
 *
 * Return: 0, or a negative errno, and the pages are as before.
 */
int backing_place(struct pages *pages);

/* Undoes backing_make(). */
void backing_drop(struct backing *backing);

const struct buffer *backing_buffer(const struct backing *backing);

/**
 * backing_hold() - note that an MR uses a buffer
 * @backing: the buffer
 * @mr: the MR
 *
 * Return: false if there is no memory.
 */
bool backing_hold(struct backing *backing, struct ibv_mr *mr);

/**
 * backing_detach() - forget about an MR that is about to go
 * @mr: the MR; its address may be that of another one as soon as it is gone
 *
 * Return: what backing_settle() takes, or NULL if the MR is none of ours.
 */
struct user *backing_detach(struct ibv_mr *mr);

/**
 * backing_settle() - what has become of that MR
 * @user: from backing_detach()
 * @is_gone: whether it is gone, and its buffer no longer used by it
 */
void backing_settle(struct user *user, bool is_gone);

/* Closes the buffers that no MR uses and that are mapped nowhere any more. */
void backing_sweep(void);

#endif /* _PRELOAD_BACKING_H */
