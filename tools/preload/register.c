// SPDX-License-Identifier: GPL-2.0-only
/*
 * How memory becomes a dma-buf MR: it is copied to a buffer that has a dma-buf,
 * the buffer is mapped at the same addresses, and its dma-buf is registered.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "backing.h"
#include "register.h"
#include "verbs.h"

/* The kernel takes these for dma-bufs; optional ones may be left out. */
#define ACCESS_WRITING (IB_UVERBS_ACCESS_LOCAL_WRITE | \
			IB_UVERBS_ACCESS_REMOTE_WRITE | \
			IB_UVERBS_ACCESS_REMOTE_ATOMIC)
#define ACCESS_TAKEN (ACCESS_WRITING | IB_UVERBS_ACCESS_REMOTE_READ | \
		      IB_UVERBS_ACCESS_RELAXED_ORDERING)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static void give_lock(void)
{
	pthread_mutex_unlock(&lock);
}

/* A child of fork() must not find the lock taken by a thread that it lacks. */
static void prepare(void)
{
	settings_read();
	pthread_atfork(take_lock, give_lock, give_lock);
}

/*
 * libibverbs may be there for a plugin of the program alone, where RTLD_NEXT
 * does not look; that it is loaded is certain.
 */
void *real(const char *name)
{
	void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	void *function = library ? dlsym(library, name) : NULL;

	if (library)
		dlclose(library);
	if (!function)
		errno = EOPNOTSUPP;
	return function;
}

static struct ibv_mr *register_pages(const struct request *request,
				     struct pages *pages, int *err)
{
	const size_t in_page = (uintptr_t)request->addr % PAGE_BYTES;
	const unsigned int access = request->access & ACCESS_TAKEN;
	struct ibv_mr *(*reg)(struct ibv_pd *pd, uint64_t offset, size_t length,
			      uint64_t iova, int fd, int access);
	struct ibv_mr *mr;

	reg = real("ibv_reg_dmabuf_mr");
	mr = reg ? reg(request->pd, pages->offset + in_page, request->length,
		       request->iova, backing_buffer(pages->backing)->dmabuf,
		       access) : NULL;
	if (!mr) {
		*err = errno ? errno : EIO;
		pages->obstacle = "ibv_reg_dmabuf_mr()";
		return NULL;
	}
	/* It is the offset until now, and programs read it. */
	mr->addr = request->addr;
	return mr;
}

static void deregister(struct ibv_mr *mr)
{
	__typeof__(ibv_dereg_mr) *dereg = real("ibv_dereg_mr");

	if (dereg)
		dereg(mr);
}

/* Registered first: if that is refused, the program's memory is as it was. */
static struct ibv_mr *register_new(const struct request *request,
				   struct pages *pages, int *err)
{
	struct backing *backing;
	struct ibv_mr *mr;

	*err = -backing_make(pages, settings.exporter, settings.moves);
	if (*err)
		return NULL;
	backing = pages->backing;
	mr = register_pages(request, pages, err);
	if (mr) {
		*err = -backing_place(pages);
		if (!*err)
			return mr;
		deregister(mr);
	}
	backing_drop(backing);
	pages->backing = NULL;
	return NULL;
}

static struct ibv_mr *register_locked(const struct request *request,
				      struct pages *pages, int *err)
{
	struct ibv_mr *mr;

	backing_sweep();
	*err = -backing_find(pages);
	if (*err)
		return NULL;
	if (pages->backing)
		mr = register_pages(request, pages, err);
	else
		mr = register_new(request, pages, err);
	if (mr && !backing_hold(pages->backing, mr)) {
		*err = ENOMEM;
		pages->obstacle = "no memory";
		deregister(mr);
		return NULL;
	}
	return mr;
}

/* What can be refused without a look at the memory. */
static int check(const struct request *request, struct pages *pages)
{
	uintptr_t addr = (uintptr_t)request->addr, end;

	if (settings.mistake) {
		pages->obstacle = settings.mistake;
		return -EINVAL;
	}
	if (request->has_more) {
		pages->obstacle = "attributes that dma-buf MRs do not have";
		return -EOPNOTSUPP;
	}
	if (request->access & ~(ACCESS_TAKEN | IB_UVERBS_ACCESS_OPTIONAL_RANGE)) {
		pages->obstacle = "access that dma-buf MRs do not have";
		return -EOPNOTSUPP;
	}
	if (!request->length || __builtin_add_overflow(addr, request->length, &end) ||
	    end > UINTPTR_MAX - PAGE_BYTES) {
		pages->obstacle = "no range of memory";
		return -EINVAL;
	}
	pages->start = addr & ~(PAGE_BYTES - 1);
	pages->end = (end + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	pages->is_written = request->access & ACCESS_WRITING;
	return 0;
}

struct ibv_mr *register_mr(const struct request *request, bool *is_plain)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct pages pages = {};
	struct ibv_mr *mr = NULL;
	int err;

	pthread_once(&once, prepare);
	take_lock();
	err = -check(request, &pages);
	if (!err)
		mr = register_locked(request, &pages, &err);
	report_registration(request, &pages, err);
	give_lock();
	*is_plain = err && !settings.is_strict;
	if (err)
		errno = err;
	return mr;
}

int deregister_mr(struct ibv_mr *mr)
{
	__typeof__(ibv_dereg_mr) *dereg = real("ibv_dereg_mr");
	struct user *user;
	int err;

	if (!dereg)
		return errno;
	take_lock();
	user = backing_detach(mr);
	give_lock();
	err = dereg(mr);
	if (user) {
		take_lock();
		backing_settle(user, !err);
		backing_sweep();
		give_lock();
	}
	return err;
}
