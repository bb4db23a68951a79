// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tracepoints themselves, and a function for each that Rust can call: the
 * kernel crate's declare_trace!() knows only those in its own bindings.
 */
#include "helpers.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

void rdma_dmabuf_helper_trace_map(u64 region, u64 ino, u64 blocks,
				  u64 block_size)
{
	trace_rdma_dmabuf_map(region, ino, blocks, block_size);
}

void rdma_dmabuf_helper_trace_unmap(u64 region)
{
	trace_rdma_dmabuf_unmap(region);
}

void rdma_dmabuf_helper_trace_invalidate(u64 region)
{
	trace_rdma_dmabuf_invalidate(region);
}

void rdma_dmabuf_helper_trace_fault(u64 region)
{
	trace_rdma_dmabuf_fault(region);
}

void rdma_dmabuf_helper_trace_revoke(u64 region)
{
	trace_rdma_dmabuf_revoke(region);
}
