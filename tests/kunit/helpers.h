/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the KUnit suites need of the kernel's inline functions and macros, as
 * functions that bindgen and Rust can see. Built into test modules only.
 */
#ifndef _RDMA_DMABUF_KUNIT_HELPERS_H
#define _RDMA_DMABUF_KUNIT_HELPERS_H

#include <linux/sched.h>

void rdma_dmabuf_test_fail(const char *file, size_t file_len, u32 line,
			   const char *what, size_t what_len);

struct task_struct *rdma_dmabuf_test_thread_run(int (*run)(void *data),
						void *data);
void rdma_dmabuf_test_thread_allow_kill(void);
void rdma_dmabuf_test_thread_kill(struct task_struct *task);
bool rdma_dmabuf_test_thread_is_asleep(struct task_struct *task);
void rdma_dmabuf_test_thread_reap(struct task_struct *task);

unsigned int rdma_dmabuf_test_fail_nth(unsigned int nth);
void rdma_dmabuf_test_dma_segments(struct device *dev, u64 *longest,
				   u64 *boundary);

int rdma_dmabuf_test_other_fd(void);

enum rdma_dmabuf_test_event {
	TEST_EVENT_MAP,
	TEST_EVENT_UNMAP,
	TEST_EVENT_INVALIDATE,
	TEST_EVENT_FAULT,
	TEST_EVENT_REVOKE,
	TEST_EVENTS,
};

int rdma_dmabuf_test_probes_register(void);
void rdma_dmabuf_test_probes_unregister(void);
u32 rdma_dmabuf_test_probes_count(enum rdma_dmabuf_test_event event);
void rdma_dmabuf_test_probes_last_map(u64 *blocks, u64 *block_size);

int rdma_dmabuf_test_module_references(void);

int rdma_dmabuf_test_warnings_suppress(void);
u32 rdma_dmabuf_test_warnings_count(void);
void rdma_dmabuf_test_warnings_restore(void);

#endif /* _RDMA_DMABUF_KUNIT_HELPERS_H */
