// SPDX-License-Identifier: GPL-2.0-only
/* The exporters that a buffer may come from: udmabuf, dma-heap, vram_exporter. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include "buffer.h"
#include "vram_exporter.h"

/* Of vram_exporter. */
#define MOVES_LIMIT 10000

struct exporter {
	const char *name;
	bool moves;
	int (*make)(struct buffer *buffer, unsigned int moves,
		    const char **step);
	int (*fill)(const struct buffer *buffer, const void *from,
		    size_t length);
};

static int failed(const char **step, const char *what)
{
	*step = what;
	return -errno;
}

/* The memfd of the buffer is there; udmabuf wants it sealed. */
static int add_udmabuf(struct buffer *buffer, const char **step)
{
	struct udmabuf_create create = {
		.memfd = buffer->memory,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = buffer->size,
	};
	int device, err = 0;

	if (ftruncate(buffer->memory, buffer->size))
		return failed(step, "the size of a memfd");
	if (fcntl(buffer->memory, F_ADD_SEALS, F_SEAL_SHRINK))
		return failed(step, "the seal of a memfd");
	device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return failed(step, "opening /dev/udmabuf");
	buffer->dmabuf = ioctl(device, UDMABUF_CREATE, &create);
	if (buffer->dmabuf < 0)
		err = failed(step, "UDMABUF_CREATE");
	close(device);
	return err;
}

static int make_udmabuf(struct buffer *buffer, unsigned int moves,
			const char **step)
{
	buffer->memory = memfd_create("rdmabuf", MFD_CLOEXEC |
				      MFD_ALLOW_SEALING);
	if (buffer->memory < 0)
		return failed(step, "memfd_create()");
	return add_udmabuf(buffer, step);
}

/* write() tells what cannot be read, memcpy() would not. */
static int fill_memfd(const struct buffer *buffer, const void *from,
		      size_t length)
{
	size_t done = 0;
	ssize_t count;

	while (done < length) {
		count = pwrite(buffer->memory, (const char *)from + done,
			       length - done, done);
		if (count < 0 && errno != EINTR)
			return -errno;
		if (count > 0)
			done += count;
	}
	return 0;
}

static int make_heap(struct buffer *buffer, unsigned int moves,
		     const char **step)
{
	struct dma_heap_allocation_data data = {
		.len = buffer->size,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};
	int heap, err = 0;

	heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	if (heap < 0)
		return failed(step, "opening /dev/dma_heap/system");
	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data))
		err = failed(step, "DMA_HEAP_IOCTL_ALLOC");
	else
		buffer->dmabuf = data.fd;
	close(heap);
	buffer->memory = buffer->dmabuf;
	return err;
}

/* In system memory: there is more of it, and rxe needs it there anyway. */
static int make_vram(struct buffer *buffer, unsigned int moves,
		     const char **step)
{
	struct vram_exporter_create create = {
		.size = buffer->size,
		.layout = VRAM_EXPORTER_LAYOUT_CHANGING,
		.placement = VRAM_EXPORTER_PLACEMENT_SYSTEM,
		.open_flags = O_RDWR | O_CLOEXEC,
	};
	struct vram_exporter_loop loop = { .per_second = moves };

	buffer->control = open("/dev/vram_exporter", O_RDWR | O_CLOEXEC);
	if (buffer->control < 0)
		return failed(step, "opening /dev/vram_exporter");
	buffer->dmabuf = ioctl(buffer->control, VRAM_EXPORTER_IOC_CREATE,
			       &create);
	if (buffer->dmabuf < 0)
		return failed(step, "VRAM_EXPORTER_IOC_CREATE");
	buffer->memory = buffer->dmabuf;
	loop.fd = buffer->dmabuf;
	if (moves && ioctl(buffer->control, VRAM_EXPORTER_IOC_LOOP, &loop))
		return failed(step, "VRAM_EXPORTER_IOC_LOOP");
	return 0;
}

static int fill_vram(const struct buffer *buffer, const void *from,
		     size_t length)
{
	struct vram_exporter_copy copy = {
		.fd = buffer->dmabuf,
		.length = length,
		.address = (uintptr_t)from,
	};

	return ioctl(buffer->control, VRAM_EXPORTER_IOC_WRITE, &copy) ?
		-errno : 0;
}

static const struct exporter exporters[] = {
	{ "udmabuf", false, make_udmabuf, fill_memfd },
	{ "heap", false, make_heap, NULL },
	{ "vram", true, make_vram, fill_vram },
	{ }
};

const struct exporter *exporter_find(const char *name)
{
	size_t i;

	if (!name)
		return &exporters[0];
	for (i = 0; exporters[i].name; i++) {
		if (!strcmp(exporters[i].name, name))
			return &exporters[i];
	}
	return NULL;
}

const char *exporter_name(const struct exporter *exporter)
{
	return exporter->name;
}

bool exporter_moves(const struct exporter *exporter)
{
	return exporter->moves;
}

bool exporter_fills(const struct exporter *exporter)
{
	return exporter->fill;
}

int buffer_make(struct buffer *buffer, const struct exporter *exporter,
		size_t size, unsigned int moves, const char **step)
{
	int err;

	*buffer = (struct buffer){
		.exporter = exporter,
		.size = (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1),
		.dmabuf = -1,
		.memory = -1,
		.control = -1,
	};
	err = exporter->make(buffer, moves, step);
	if (err)
		buffer_close(buffer);
	return err;
}

int buffer_fill(const struct buffer *buffer, const void *from, size_t length)
{
	return buffer->exporter->fill(buffer, from, length);
}

void buffer_close(struct buffer *buffer)
{
	if (buffer->control >= 0)
		close(buffer->control);
	if (buffer->memory >= 0 && buffer->memory != buffer->dmabuf)
		close(buffer->memory);
	if (buffer->dmabuf >= 0)
		close(buffer->dmabuf);
}

bool setting_moves(const char *name, unsigned int *moves)
{
	const char *text = getenv(name);
	unsigned long number = 0;
	char *end = "";

	if (text) {
		if (*text < '0' || *text > '9')
			return false;
		number = strtoul(text, &end, 10);
	}
	*moves = number;
	return !*end && number <= MOVES_LIMIT;
}
