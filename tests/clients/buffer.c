// SPDX-License-Identifier: GPL-2.0-only
/* A dma-buf of udmabuf or /dev/vram_exporter, and what is in it. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-buf.h>
#include <linux/udmabuf.h>

#include "buffer.h"
#include "vram_exporter.h"

#define PAGE		4096UL
#define GUARD		0xee
#define BUFFER_SIZE	(MR_OFFSET + MR_LENGTH + PAGE - (MR_OFFSET + MR_LENGTH) % PAGE)

const char *who = "client";

void fail_because(const char *call, const char *reason, const char *remedy)
{
	fprintf(stderr, "%s: %s: %s; %s\n", who, call, reason, remedy);
	exit(1);
}

void fail(const char *call, int error, const char *remedy)
{
	const char *name = strerrorname_np(error);
	char reason[128];

	snprintf(reason, sizeof(reason), "%s (%s)", strerror(error), name ? name : "?");
	fail_because(call, reason, remedy);
}

static int create_udmabuf(size_t size)
{
	int memory = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct udmabuf_create create = {
		.memfd = memory,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = size,
	};
	int device, fd;

	if (memory < 0)
		fail("memfd_create", errno, "the kernel needs CONFIG_MEMFD_CREATE");
	if (ftruncate(memory, size) || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK))
		fail("memfd", errno, "make room in memory");
	device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (device < 0)
		fail("open /dev/udmabuf", errno, "the kernel needs CONFIG_UDMABUF");
	fd = ioctl(device, UDMABUF_CREATE, &create);
	if (fd < 0)
		fail("UDMABUF_CREATE", errno, "raise udmabuf's size_limit_mb");
	close(device);
	close(memory);
	return fd;
}

static int create_vram(int control, size_t size)
{
	struct vram_exporter_create create = {
		.size = size,
		.layout = VRAM_EXPORTER_LAYOUT_CHANGING,
		.placement = VRAM_EXPORTER_PLACEMENT_VRAM,
		.open_flags = O_RDWR | O_CLOEXEC,
	};
	int fd = ioctl(control, VRAM_EXPORTER_IOC_CREATE, &create);

	if (fd < 0)
		fail("VRAM_EXPORTER_IOC_CREATE", errno, "raise vram_mb of vram_exporter");
	return fd;
}

/* In system memory, where rxe wants the buffer: it need not be moved there first. */
static void start_moves(struct buffer *buffer, unsigned int moves)
{
	struct vram_exporter_loop loop = {
		.fd = buffer->fd,
		.per_second = moves,
		.placement = VRAM_EXPORTER_PLACEMENT_SYSTEM,
	};

	if (buffer->control < 0)
		fail("moves", EINVAL, "only vram moves");
	if (ioctl(buffer->control, VRAM_EXPORTER_IOC_LOOP, &loop))
		fail("VRAM_EXPORTER_IOC_LOOP", errno, "ask for at most 10000 moves a second");
}

/* The CPU's accesses go between a start and an end. */
static void sync_cpu(struct buffer *buffer, __u64 flags)
{
	struct dma_buf_sync sync = { .flags = flags | DMA_BUF_SYNC_RW };

	while (ioctl(buffer->fd, DMA_BUF_IOCTL_SYNC, &sync))
		if (errno != EINTR && errno != EAGAIN)
			fail("DMA_BUF_IOCTL_SYNC", errno, "is the buffer revoked?");
}

void buffer_create(struct buffer *buffer, const char *exporter,
		   unsigned int moves)
{
	buffer->size = BUFFER_SIZE;
	buffer->control = -1;
	if (!strcmp(exporter, "udmabuf")) {
		buffer->fd = create_udmabuf(buffer->size);
	} else if (!strcmp(exporter, "vram")) {
		buffer->control = open("/dev/vram_exporter", O_RDWR | O_CLOEXEC);
		if (buffer->control < 0)
			fail("open /dev/vram_exporter", errno, "insmod vram_exporter.ko");
		buffer->fd = create_vram(buffer->control, buffer->size);
	} else {
		fail(exporter, EINVAL, "the exporters are udmabuf and vram");
	}
	buffer->cpu = mmap(NULL, buffer->size, PROT_READ | PROT_WRITE, MAP_SHARED,
			   buffer->fd, 0);
	if (buffer->cpu == MAP_FAILED)
		fail("mmap of the dma-buf", errno, "make room in memory");
	buffer->base = mmap(NULL, buffer->size, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (buffer->base == MAP_FAILED)
		fail("mmap of addresses alone", errno, "make room in memory");
	sync_cpu(buffer, DMA_BUF_SYNC_START);
	memset(buffer->cpu, GUARD, buffer->size);
	sync_cpu(buffer, DMA_BUF_SYNC_END);
	if (moves)
		start_moves(buffer, moves);
	say("buffer of %s, %zu bytes, %u moves a second", exporter, buffer->size, moves);
}

void *buffer_area(const struct buffer *buffer, unsigned int area)
{
	return buffer->base + MR_OFFSET + (size_t)area * AREA_SIZE;
}

static unsigned char *area_of_cpu(struct buffer *buffer, unsigned int area)
{
	return buffer->cpu + MR_OFFSET + (size_t)area * AREA_SIZE;
}

/* No two bytes near each other, and no two pages, are alike by rule; GUARD may occur. */
static unsigned char pattern(enum side from, unsigned int area,
			     unsigned int round, size_t at)
{
	__u32 mixed = (__u32)at * 2654435761u;

	mixed ^= (from * AREAS + area + 1) * 40503u + round * 7919u;
	mixed *= 2246822519u;
	return mixed >> 24;
}

void buffer_fill(struct buffer *buffer, enum side from, unsigned int area,
		 unsigned int round)
{
	unsigned char *bytes = area_of_cpu(buffer, area);
	size_t at;

	sync_cpu(buffer, DMA_BUF_SYNC_START);
	for (at = 0; at < AREA_SIZE; at++)
		bytes[at] = pattern(from, area, round, at);
	sync_cpu(buffer, DMA_BUF_SYNC_END);
}

void buffer_verify(struct buffer *buffer, const char *what, enum side from,
		   unsigned int area, unsigned int round)
{
	const unsigned char *bytes = area_of_cpu(buffer, area);
	size_t at, wrong = 0, first = 0;

	sync_cpu(buffer, DMA_BUF_SYNC_START);
	for (at = 0; at < AREA_SIZE; at++) {
		if (bytes[at] == pattern(from, area, round, at))
			continue;
		if (!wrong++)
			first = at;
	}
	sync_cpu(buffer, DMA_BUF_SYNC_END);
	if (wrong) {
		say("%s, round %u: %zu of %d bytes are wrong, the first at %zu",
		    what, round, wrong, AREA_SIZE, first);
		fail(what, EBADMSG, "the data that arrived is not what was sent");
	}
	say("%s, round %u: %d bytes verified", what, round, AREA_SIZE);
}

/* How often the buffer has moved. */
static unsigned long long moved(const struct buffer *buffer)
{
	struct vram_exporter_stats stats = { .fd = buffer->fd };

	if (buffer->control < 0)
		return 0;
	if (ioctl(buffer->control, VRAM_EXPORTER_IOC_STATS, &stats))
		fail("VRAM_EXPORTER_IOC_STATS", errno, "is the buffer one of vram?");
	if (stats.late_writes || stats.breaches)
		fail("late writes or breaches of the contract", EBADMSG, "see the kernel's log");
	return stats.moves;
}

void buffer_finish(struct buffer *buffer, unsigned int moves)
{
	unsigned long long count = moved(buffer);
	size_t at;

	sync_cpu(buffer, DMA_BUF_SYNC_START);
	for (at = 0; at < buffer->size; at++) {
		if (at == MR_OFFSET)
			at += MR_LENGTH;
		if (buffer->cpu[at] != GUARD)
			fail("guard", EBADMSG, "something wrote outside of the MR");
	}
	sync_cpu(buffer, DMA_BUF_SYNC_END);
	/* One move brings a buffer from video memory to the device. */
	if (moves && count < 2)
		fail("moves", EBADMSG, "the buffer was to move, and did not");
	say("the buffer moved %llu times", count);
	say("ok");
}
