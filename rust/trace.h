/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints of the importer. A region goes by the id it has in debugfs.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rdma_dmabuf

#if !defined(_RDMA_DMABUF_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _RDMA_DMABUF_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(rdma_dmabuf_map,
	TP_PROTO(u64 region, u64 ino, u64 blocks, u64 block_size),
	TP_ARGS(region, ino, blocks, block_size),
	TP_STRUCT__entry(
		__field(u64, region)
		__field(u64, ino)
		__field(u64, blocks)
		__field(u64, block_size)
	),
	TP_fast_assign(
		__entry->region = region;
		__entry->ino = ino;
		__entry->blocks = blocks;
		__entry->block_size = block_size;
	),
	TP_printk("region=%llu ino=%llu blocks=%llu block_size=%llu",
		  __entry->region, __entry->ino, __entry->blocks,
		  __entry->block_size)
);

DECLARE_EVENT_CLASS(rdma_dmabuf_region,
	TP_PROTO(u64 region),
	TP_ARGS(region),
	TP_STRUCT__entry(
		__field(u64, region)
	),
	TP_fast_assign(
		__entry->region = region;
	),
	TP_printk("region=%llu", __entry->region)
);

DEFINE_EVENT(rdma_dmabuf_region, rdma_dmabuf_unmap,
	TP_PROTO(u64 region), TP_ARGS(region));

DEFINE_EVENT(rdma_dmabuf_region, rdma_dmabuf_invalidate,
	TP_PROTO(u64 region), TP_ARGS(region));

DEFINE_EVENT(rdma_dmabuf_region, rdma_dmabuf_fault,
	TP_PROTO(u64 region), TP_ARGS(region));

DEFINE_EVENT(rdma_dmabuf_region, rdma_dmabuf_revoke,
	TP_PROTO(u64 region), TP_ARGS(region));

#endif /* _RDMA_DMABUF_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
