// SPDX-License-Identifier: GPL-2.0-only
/* Reads the environment of librdmabuf-mr.so, and writes its log. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "settings.h"

struct settings settings;

/* A number is an open file. */
static int open_log(const char *name)
{
	char *end;
	long fd;

	fd = strtol(name, &end, 10);
	if (*name && !*end)
		return fcntl(fd, F_GETFD) < 0 ? -1 : fd;
	return open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

void settings_read(void)
{
	const char *strict = getenv("RDMABUF_MR_STRICT");
	const char *log = getenv("RDMABUF_MR_LOG");

	settings.exporter = exporter_find(getenv("RDMABUF_MR_EXPORTER"));
	settings.is_strict = strict && strcmp(strict, "0");
	settings.log = log ? open_log(log) : -1;
	if (!settings.exporter || !exporter_fills(settings.exporter))
		settings.mistake = "RDMABUF_MR_EXPORTER must be udmabuf or vram";
	else if (!setting_moves("RDMABUF_MR_MOVES", &settings.moves))
		settings.mistake = "RDMABUF_MR_MOVES must be 0 to 10000";
	else if (settings.moves && !exporter_moves(settings.exporter))
		settings.mistake = "RDMABUF_MR_MOVES needs RDMABUF_MR_EXPORTER=vram";
	else if (log && settings.log < 0)
		settings.mistake = "RDMABUF_MR_LOG cannot be opened";
	/* Whoever has set it wrongly did not want plain MRs. */
	if (settings.mistake)
		settings.is_strict = true;
}

/* In one write, so that lines of several threads and processes do not mix. */
static void say(int fd, const char *line, int length)
{
	if (fd >= 0 && length > 0 && write(fd, line, length) < 0)
		return;
}

static void log_registration(const struct request *request,
			     const struct pages *pages, const char *result)
{
	const char *exporter = "none";
	unsigned long long offset = pages->offset;
	char line[512];
	int length, fd = -1;

	if (settings.exporter)
		exporter = exporter_name(settings.exporter);
	if (pages->backing) {
		fd = backing_buffer(pages->backing)->dmabuf;
		offset += (uintptr_t)request->addr % PAGE_BYTES;
	}
	length = snprintf(line, sizeof(line),
			  "%s addr=%p length=%zu iova=%#llx access=%#x exporter=%s fd=%d offset=%#llx -> %s\n",
			  request->function, request->addr, request->length,
			  (unsigned long long)request->iova, request->access,
			  exporter, fd, offset, result);
	say(settings.log, line, length);
}

void report_registration(const struct request *request,
			 const struct pages *pages, int err)
{
	char result[128], line[256];
	int length;

	if (!err) {
		log_registration(request, pages, "0");
		return;
	}
	snprintf(result, sizeof(result), "%s (%s)%s", strerrorname_np(err),
		 pages->obstacle, settings.is_strict ? "" : ", plain instead");
	log_registration(request, pages, result);
	if (!settings.is_strict)
		return;
	length = snprintf(line, sizeof(line),
			  "librdmabuf-mr: %s of %zu bytes at %p: %s\n",
			  request->function, request->length, request->addr,
			  result);
	say(STDERR_FILENO, line, length);
}
