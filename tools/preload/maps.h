/* SPDX-License-Identifier: GPL-2.0-only */
/* What is mapped where in this process, as the kernel tells it. */
#ifndef _PRELOAD_MAPS_H
#define _PRELOAD_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * struct mapping - one of this process's mappings
 * @start: its first address
 * @end: behind its last
 * @prot: PROT_READ, PROT_WRITE and PROT_EXEC as they are
 * @is_shared: whether it is a shared mapping
 * @dev: device of its file
 * @ino: inode of its file, 0 if it has none
 * @offset: of @start in the file
 */
struct mapping {
	uintptr_t start;
	uintptr_t end;
	int prot;
	bool is_shared;
	dev_t dev;
	ino_t ino;
	uint64_t offset;
};

/**
 * maps_walk() - look at the mappings of this process, lowest first
 * @visit: called for each; ends the walk by returning other than 0
 * @arg: for @visit
 *
 * Return: what @visit returned last, or a negative errno.
 */
int maps_walk(int (*visit)(const struct mapping *mapping, void *arg),
	      void *arg);

#endif /* _PRELOAD_MAPS_H */
