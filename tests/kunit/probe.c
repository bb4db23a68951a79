// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the KUnit suites see of tracepoints and warnings.
 */
#include <kunit/test-bug.h>
#include <kunit/test.h>
#include <linux/module.h>

#include "../../rust/trace.h"
#include "helpers.h"

static atomic_t counts[TEST_EVENTS];
static u64 last_blocks, last_block_size;

static void on_map(void *data, u64 region, u64 ino, u64 blocks, u64 block_size)
{
	atomic_inc(&counts[TEST_EVENT_MAP]);
	WRITE_ONCE(last_blocks, blocks);
	WRITE_ONCE(last_block_size, block_size);
}

static void on_event(void *data, u64 region)
{
	atomic_inc((atomic_t *)data);
}

void rdma_dmabuf_test_probes_unregister(void)
{
	unregister_trace_rdma_dmabuf_map(on_map, NULL);
	unregister_trace_rdma_dmabuf_unmap(on_event, &counts[TEST_EVENT_UNMAP]);
	unregister_trace_rdma_dmabuf_invalidate(on_event,
						&counts[TEST_EVENT_INVALIDATE]);
	unregister_trace_rdma_dmabuf_fault(on_event, &counts[TEST_EVENT_FAULT]);
	unregister_trace_rdma_dmabuf_revoke(on_event,
					    &counts[TEST_EVENT_REVOKE]);
	tracepoint_synchronize_unregister();
}

int rdma_dmabuf_test_probes_register(void)
{
	int ret;

	memset(counts, 0, sizeof(counts));
	ret = register_trace_rdma_dmabuf_map(on_map, NULL);
	ret = ret ?: register_trace_rdma_dmabuf_unmap(on_event,
						      &counts[TEST_EVENT_UNMAP]);
	ret = ret ?: register_trace_rdma_dmabuf_invalidate(on_event,
							   &counts[TEST_EVENT_INVALIDATE]);
	ret = ret ?: register_trace_rdma_dmabuf_fault(on_event,
						      &counts[TEST_EVENT_FAULT]);
	ret = ret ?: register_trace_rdma_dmabuf_revoke(on_event,
						       &counts[TEST_EVENT_REVOKE]);
	if (ret)
		rdma_dmabuf_test_probes_unregister();
	return ret;
}

u32 rdma_dmabuf_test_probes_count(enum rdma_dmabuf_test_event event)
{
	return event < TEST_EVENTS ? atomic_read(&counts[event]) : 0;
}

void rdma_dmabuf_test_probes_last_map(u64 *blocks, u64 *block_size)
{
	*blocks = READ_ONCE(last_blocks);
	*block_size = READ_ONCE(last_block_size);
}

int rdma_dmabuf_test_module_references(void)
{
	return module_refcount(THIS_MODULE);
}

/* Suites run one case at a time, so one is enough. */
static struct kunit_suppressed_warning *suppressed;

int rdma_dmabuf_test_warnings_suppress(void)
{
	struct kunit *test = kunit_get_current_test();

	if (!test)
		return -ENOENT;
	suppressed = kunit_start_suppress_warning(test);
	return suppressed ? 0 : -ENOMEM;
}

u32 rdma_dmabuf_test_warnings_count(void)
{
	return kunit_suppressed_warning_count(suppressed);
}

void rdma_dmabuf_test_warnings_restore(void)
{
	kunit_end_suppress_warning(kunit_get_current_test(), suppressed);
	suppressed = NULL;
}
