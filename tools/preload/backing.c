// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers that have taken the place of a program's own memory.
 *
 * Which address belongs to which buffer is not kept here: programs unmap, move
 * and split what they have, and only the kernel knows. /proc/self/maps names
 * the file of each mapping, and so the buffer.
 *
 * The caller sees to it that one thread at a time is in here.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "backing.h"
#include "maps.h"

/* @dev and @ino are what /proc/self/maps calls its memory. */
struct backing {
	struct backing *next;
	struct buffer buffer;
	dev_t dev;
	ino_t ino;
	unsigned int mrs;
	bool is_mapped;
};

struct user {
	struct user *next;
	struct ibv_mr *mr;
	struct backing *backing;
};

static struct backing *backings;
static struct user *users;

const struct buffer *backing_buffer(const struct backing *backing)
{
	return &backing->buffer;
}

static struct backing *backing_of(const struct mapping *mapping)
{
	struct backing *backing;

	for (backing = backings; backing; backing = backing->next) {
		if (mapping->is_shared && backing->ino == mapping->ino &&
		    backing->dev == mapping->dev)
			return backing;
	}
	return NULL;
}

/* The part of the walk over the mappings that concerns some pages. */
struct search {
	struct pages *pages;
	uintptr_t seen;
	bool is_one_buffer;
	bool is_in_use;
};

static int refuse(struct pages *pages, int err, const char *obstacle)
{
	pages->obstacle = obstacle;
	return -err;
}

static int visit_mapping(const struct mapping *mapping, void *arg)
{
	struct search *search = arg;
	struct pages *pages = search->pages;
	struct backing *backing = backing_of(mapping);
	bool is_first = search->seen == pages->start;
	uint64_t offset;

	if (mapping->end <= search->seen || search->seen >= pages->end)
		return 0;
	if (mapping->start > search->seen)
		return refuse(pages, EFAULT, "not all of it is mapped");
	if (!(mapping->prot & PROT_READ) ||
	    (pages->is_written && !(mapping->prot & PROT_WRITE)))
		return refuse(pages, EFAULT, "its protection forbids it");
	if (mapping->is_shared && !backing)
		return refuse(pages, EOPNOTSUPP, "it is shared memory");
	if (!is_first && mapping->prot != pages->prot)
		return refuse(pages, EOPNOTSUPP, "its protection varies");

	offset = mapping->offset + (search->seen - mapping->start);
	if (is_first) {
		pages->prot = mapping->prot;
		pages->backing = backing;
		pages->offset = offset;
		search->is_one_buffer = backing;
	} else if (backing != pages->backing ||
		   offset != pages->offset + (search->seen - pages->start)) {
		search->is_one_buffer = false;
	}
	search->is_in_use |= backing && backing->mrs;
	search->seen = mapping->end;
	return 0;
}

/* Its own frames would change under the thread that copies them. */
static bool is_on_stack(const struct pages *pages)
{
	pthread_attr_t attr;
	bool is_on = false;
	size_t size;
	void *start;

	if (pthread_getattr_np(pthread_self(), &attr))
		return false;
	if (!pthread_attr_getstack(&attr, &start, &size))
		is_on = pages->start < (uintptr_t)start + size &&
			pages->end > (uintptr_t)start;
	pthread_attr_destroy(&attr);
	return is_on;
}

int backing_find(struct pages *pages)
{
	struct search search = { .pages = pages, .seen = pages->start };
	int err;

	pages->obstacle = "/proc/self/maps";
	err = maps_walk(visit_mapping, &search);
	if (err)
		return err;
	if (search.seen < pages->end)
		return refuse(pages, EFAULT, "not all of it is mapped");
	if (search.is_one_buffer)
		return 0;
	/* A part that no MR uses any more is memory like any other. */
	if (search.is_in_use)
		return refuse(pages, EBUSY,
			      "part of it belongs to the buffer of another MR");
	if (is_on_stack(pages))
		return refuse(pages, EOPNOTSUPP, "it is on the stack");
	pages->backing = NULL;
	return 0;
}

int backing_make(struct pages *pages, const struct exporter *exporter,
		 unsigned int moves)
{
	struct backing *backing = calloc(1, sizeof(*backing));
	struct stat stat;
	int err;

	if (!backing)
		return refuse(pages, ENOMEM, "no memory");
	err = buffer_make(&backing->buffer, exporter, pages->end - pages->start,
			  moves, &pages->obstacle);
	if (err) {
		free(backing);
		return err;
	}
	if (fstat(backing->buffer.memory, &stat)) {
		err = refuse(pages, errno, "fstat() of a buffer");
		buffer_close(&backing->buffer);
		free(backing);
		return err;
	}
	backing->dev = stat.st_dev;
	backing->ino = stat.st_ino;
	backing->next = backings;
	backings = backing;
	pages->backing = backing;
	pages->offset = 0;
	return 0;
}

int backing_place(struct pages *pages)
{
	const struct buffer *buffer = &pages->backing->buffer;
	int err;

	err = buffer_fill(buffer, (void *)pages->start, buffer->size);
	if (err)
		return refuse(pages, -err, "copying the memory");
	if (mmap((void *)pages->start, buffer->size, pages->prot,
		 MAP_SHARED | MAP_FIXED, buffer->memory, 0) == MAP_FAILED)
		return refuse(pages, errno, "mapping the buffer");
	return 0;
}

void backing_drop(struct backing *backing)
{
	struct backing **link = &backings;

	while (*link != backing)
		link = &(*link)->next;
	*link = backing->next;
	buffer_close(&backing->buffer);
	free(backing);
}

bool backing_hold(struct backing *backing, struct ibv_mr *mr)
{
	struct user *user = malloc(sizeof(*user));

	if (!user)
		return false;
	*user = (struct user){ users, mr, backing };
	users = user;
	backing->mrs++;
	return true;
}

struct user *backing_detach(struct ibv_mr *mr)
{
	struct user **link, *user;

	for (link = &users; *link; link = &(*link)->next) {
		user = *link;
		if (user->mr == mr) {
			*link = user->next;
			return user;
		}
	}
	return NULL;
}

void backing_settle(struct user *user, bool is_gone)
{
	if (is_gone) {
		user->backing->mrs--;
		free(user);
	} else {
		user->next = users;
		users = user;
	}
}

static int mark_mapped(const struct mapping *mapping, void *arg)
{
	struct backing *backing = backing_of(mapping);

	if (backing)
		backing->is_mapped = true;
	return 0;
}

void backing_sweep(void)
{
	struct backing *backing, *next;

	for (backing = backings; backing; backing = backing->next)
		backing->is_mapped = false;
	if (maps_walk(mark_mapped, NULL))
		return;
	for (backing = backings; backing; backing = next) {
		next = backing->next;
		if (!backing->mrs && !backing->is_mapped)
			backing_drop(backing);
	}
}
