// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inline functions, macros and static tables of the kernel for the KUnit suites.
 */
#include <kunit/test-bug.h>
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/lockdep.h>
#include <linux/pfn.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "helpers.h"

/* Marks the current case as failed and goes on; a thread of its own only logs. */
void rdma_dmabuf_test_fail(const char *file, size_t file_len, u32 line,
			   const char *what, size_t what_len)
{
	struct kunit *test = kunit_get_current_test();

	if (test)
		KUNIT_FAIL(test, "%.*s:%u: %.*s", (int)file_len, file, line,
			   (int)what_len, what);
	else
		pr_err("%.*s:%u: %.*s\n", (int)file_len, file, line,
		       (int)what_len, what);
}

void rdma_dmabuf_test_copy_from_phys(void *to, phys_addr_t from, size_t bytes)
{
	memcpy(to, phys_to_virt(from), bytes);
}

void rdma_dmabuf_test_copy_to_phys(phys_addr_t to, const void *from,
				   size_t bytes)
{
	memcpy(phys_to_virt(to), from, bytes);
}

void rdma_dmabuf_test_set_pages(struct scatterlist *sg, phys_addr_t phys,
				u32 bytes)
{
	sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), bytes, 0);
}

void rdma_dmabuf_test_set_dma(struct scatterlist *sg, u64 addr, u32 bytes)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = bytes;
}

bool rdma_dmabuf_test_resv_trylock(struct dma_resv *resv)
{
	return dma_resv_trylock(resv);
}

bool rdma_dmabuf_test_resv_is_locked(struct dma_resv *resv)
{
	return dma_resv_is_locked(resv);
}

/* By the current task; only lockdep knows. */
bool rdma_dmabuf_test_resv_is_held(struct dma_resv *resv)
{
#ifdef CONFIG_LOCKDEP
	return debug_locks && lockdep_is_held(&resv->lock.base);
#else
	return false;
#endif
}

struct test_fence {
	struct dma_fence base;
	atomic_t waits;
};

static const char *test_fence_name(struct dma_fence *fence)
{
	return "rdma_dmabuf_test";
}

static signed long test_fence_wait(struct dma_fence *fence, bool intr,
				   signed long timeout)
{
	atomic_inc(&container_of(fence, struct test_fence, base)->waits);
	return dma_fence_default_wait(fence, intr, timeout);
}

static const struct dma_fence_ops test_fence_ops = {
	.get_driver_name = test_fence_name,
	.get_timeline_name = test_fence_name,
	.wait = test_fence_wait,
};

struct dma_fence *rdma_dmabuf_test_fence_new(void)
{
	struct test_fence *fence = kzalloc_obj(*fence);

	if (!fence)
		return NULL;
	dma_fence_init(&fence->base, &test_fence_ops, NULL,
		       dma_fence_context_alloc(1), 1);
	return &fence->base;
}

/* How often somebody went to sleep on @fence. */
u32 rdma_dmabuf_test_fence_waits(struct dma_fence *fence)
{
	return atomic_read(&container_of(fence, struct test_fence, base)->waits);
}

void rdma_dmabuf_test_fence_put(struct dma_fence *fence)
{
	dma_fence_put(fence);
}

/* The thread stays to be reaped when it has ended. */
struct task_struct *rdma_dmabuf_test_thread_run(int (*run)(void *data),
						void *data)
{
	struct task_struct *task;

	task = kthread_create(run, data, "rdma_dmabuf_test");
	if (IS_ERR(task))
		return task;
	get_task_struct(task);
	wake_up_process(task);
	return task;
}

/* For the current thread, which would ignore the signal. */
void rdma_dmabuf_test_thread_allow_kill(void)
{
	allow_signal(SIGKILL);
}

void rdma_dmabuf_test_thread_kill(struct task_struct *task)
{
	send_sig(SIGKILL, task, 1);
}

/* In a wait that signals do not end, such as one for a lock or a fence. */
bool rdma_dmabuf_test_thread_is_asleep(struct task_struct *task)
{
	return READ_ONCE(task->__state) & TASK_UNINTERRUPTIBLE;
}

/* Only after the thread's function has begun: else it would not run at all. */
void rdma_dmabuf_test_thread_reap(struct task_struct *task)
{
	kthread_stop_put(task);
}

static const struct file_operations other_fops = {
	.owner = THIS_MODULE,
};

/* A file that is no dma-buf. */
int rdma_dmabuf_test_other_fd(void)
{
	return anon_inode_getfd("[rdma_dmabuf_test]", &other_fops, NULL,
				O_CLOEXEC);
}
