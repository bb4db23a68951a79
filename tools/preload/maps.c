// SPDX-License-Identifier: GPL-2.0-only
/* Reads /proc/self/maps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include "maps.h"

static bool parse(const char *line, struct mapping *mapping)
{
	unsigned long start, end, offset, ino;
	unsigned int major, minor;
	char rights[5];

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu", &start, &end, rights,
		   &offset, &major, &minor, &ino) != 7)
		return false;
	mapping->start = start;
	mapping->end = end;
	mapping->offset = offset;
	mapping->prot = (rights[0] == 'r' ? PROT_READ : 0) |
			(rights[1] == 'w' ? PROT_WRITE : 0) |
			(rights[2] == 'x' ? PROT_EXEC : 0);
	mapping->is_shared = rights[3] == 's';
	mapping->dev = makedev(major, minor);
	mapping->ino = ino;
	return true;
}

int maps_walk(int (*visit)(const struct mapping *mapping, void *arg),
	      void *arg)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct mapping mapping;
	char *line = NULL;
	size_t room = 0;
	int ret = 0;

	if (!maps)
		return -errno;
	while (!ret && getline(&line, &room, maps) > 0)
		ret = parse(line, &mapping) ? visit(&mapping, arg) : -EPROTO;
	free(line);
	fclose(maps);
	return ret;
}
