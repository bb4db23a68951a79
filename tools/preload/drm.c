// SPDX-License-Identifier: GPL-2.0-only
/*
 * librdmabuf-drm.so: a render node that is none, for programs that take their
 * dma-bufs from a GPU.
 *
 * The node says that it is an amdgpu. It has one buffer, and the program's fd
 * of the node becomes a file of that buffer when it is made: the program maps
 * the node at the offset that it is told, which is 0, and sees the buffer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "buffer.h"
#include "drm_uapi.h"

#define NODES "/dev/dri/renderD"
#define HANDLE 1

struct node {
	struct node *next;
	int fd;
	bool has_buffer;
	struct buffer buffer;
};

static struct node *nodes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static int answer(int err)
{
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

/* The node of an fd, taken out of the list while somebody uses it, or NULL. */
static struct node *take_node(int fd)
{
	struct node **link, *node = NULL;

	pthread_mutex_lock(&lock);
	for (link = &nodes; *link; link = &(*link)->next) {
		if ((*link)->fd == fd) {
			node = *link;
			*link = node->next;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return node;
}

static void put_node(struct node *node)
{
	pthread_mutex_lock(&lock);
	node->next = nodes;
	nodes = node;
	pthread_mutex_unlock(&lock);
}

/* A node that is really there is left alone unless asked for. */
static bool is_ours(const char *path)
{
	const char *override = getenv("RDMABUF_DRM_OVERRIDE");

	if (strncmp(path, NODES, strlen(NODES)))
		return false;
	return (override && strcmp(override, "0")) || access(path, F_OK);
}

static int open_node(int flags)
{
	struct node *node = calloc(1, sizeof(*node));
	int (*open_file)(const char *path, int flags, ...) = real("open");

	if (!node)
		return answer(-ENOMEM);
	node->fd = open_file("/dev/null", flags);
	if (node->fd < 0) {
		free(node);
		return -1;
	}
	put_node(node);
	return node->fd;
}

static int version(struct drm_version *version)
{
	static const char name[] = "amdgpu";
	size_t room = version->name_len;

	version->version_major = 3;
	version->version_minor = 0;
	version->version_patchlevel = 0;
	version->name_len = strlen(name);
	version->date_len = 0;
	version->desc_len = 0;
	if (version->name)
		memcpy(version->name, name,
		       room < sizeof(name) ? room : sizeof(name));
	return 0;
}

static int make_buffer(struct node *node, unsigned long long size)
{
	const char *name = getenv("RDMABUF_DRM_EXPORTER");
	const struct exporter *exporter = exporter_find(name);
	const char *step = "";
	unsigned int moves;
	int err;

	if (!exporter || !setting_moves("RDMABUF_DRM_MOVES", &moves) ||
	    (moves && !exporter_moves(exporter))) {
		fputs("librdmabuf-drm: RDMABUF_DRM_EXPORTER must be udmabuf, heap or vram;\n"
		      "RDMABUF_DRM_MOVES 0 to 10000, and for vram alone\n", stderr);
		return -EINVAL;
	}
	err = buffer_make(&node->buffer, exporter, size, moves, &step);
	if (err) {
		fprintf(stderr, "librdmabuf-drm: %s: %s\n", step,
			strerrorname_np(-err));
		return err;
	}
	node->has_buffer = true;
	return 0;
}

static int create(struct node *node, union drm_amdgpu_gem_create *args)
{
	int err;

	if (node->has_buffer)
		return -ENOSPC;
	err = make_buffer(node, args->in.bo_size);
	if (err)
		return err;
	if (dup3(node->buffer.memory, node->fd, O_CLOEXEC) < 0) {
		err = -errno;
		buffer_close(&node->buffer);
		node->has_buffer = false;
		return err;
	}
	args->out.handle = HANDLE;
	return 0;
}

static int export(struct node *node, struct drm_prime_handle *args)
{
	int fd = fcntl(node->buffer.dmabuf, args->flags & O_CLOEXEC ?
		       F_DUPFD_CLOEXEC : F_DUPFD, 0);

	if (fd < 0)
		return -errno;
	args->fd = fd;
	return 0;
}

/* Of a node, as far as rdma-core's tests need it. */
static int command(struct node *node, unsigned long request, void *arg)
{
	union drm_amdgpu_gem_mmap *mapped = arg;
	struct drm_gem_close *closed = arg;
	struct drm_prime_handle *prime = arg;
	__u32 handle;

	switch (request) {
	case DRM_IOCTL_VERSION:
		return version(arg);
	case DRM_IOCTL_AMDGPU_GEM_CREATE:
		return create(node, arg);
	case DRM_IOCTL_AMDGPU_GEM_MMAP:
		handle = mapped->in.handle;
		break;
	case DRM_IOCTL_PRIME_HANDLE_TO_FD:
		handle = prime->handle;
		break;
	case DRM_IOCTL_GEM_CLOSE:
		handle = closed->handle;
		break;
	default:
		return -ENOTTY;
	}
	if (!node->has_buffer || handle != HANDLE)
		return -ENOENT;
	if (request == DRM_IOCTL_PRIME_HANDLE_TO_FD)
		return export(node, prime);
	/* The buffer goes with its node, as do all of a real one. */
	if (request == DRM_IOCTL_AMDGPU_GEM_MMAP)
		mapped->out.addr_ptr = 0;
	return 0;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	__typeof__(ioctl) *ioctl_file;
	struct node *node = take_node(fd);
	va_list args;
	void *arg;
	int err;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (!node) {
		ioctl_file = real("ioctl");
		return ioctl_file(fd, request, arg);
	}
	err = command(node, request, arg);
	put_node(node);
	return answer(err);
}

EXPORT int close(int fd)
{
	__typeof__(close) *close_file = real("close");
	struct node *node = take_node(fd);

	if (node) {
		if (node->has_buffer)
			buffer_close(&node->buffer);
		free(node);
	}
	return close_file(fd);
}

static int open_any(const char *name, const char *path, int flags,
		    va_list args)
{
	int (*open_file)(const char *path, int flags, ...) = real(name);
	mode_t mode = 0;

	if (is_ours(path))
		return open_node(flags);
	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE)
		mode = va_arg(args, mode_t);
	return open_file(path, flags, mode);
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list args;
	int fd;

	va_start(args, flags);
	fd = open_any("open", path, flags, args);
	va_end(args);
	return fd;
}

EXPORT int open64(const char *path, int flags, ...)
{
	va_list args;
	int fd;

	va_start(args, flags);
	fd = open_any("open64", path, flags, args);
	va_end(args);
	return fd;
}
