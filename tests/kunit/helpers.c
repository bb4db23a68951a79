// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inline functions, macros and static tables of the kernel for the KUnit suites.
 */
#include <kunit/test-bug.h>
#include <kunit/test.h>
#include <linux/anon_inodes.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>

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

/*
 * Lets the @nth allocation of the current task fail, none if 0. Returns which
 * of those to come was to fail until now: 0 if it has.
 */
unsigned int rdma_dmabuf_test_fail_nth(unsigned int nth)
{
#ifdef CONFIG_FAULT_INJECTION
	unsigned int left = current->fail_nth;

	current->fail_nth = nth;
	return left;
#else
	return nth;
#endif
}

/* What the device says of the segments it takes: longest, and never across. */
void rdma_dmabuf_test_dma_segments(struct device *dev, u64 *longest,
				   u64 *boundary)
{
	*longest = dma_get_max_seg_size(dev);
	*boundary = dma_get_seg_boundary(dev);
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
