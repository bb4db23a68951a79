/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the importer needs of the kernel's inline functions and macros, as
 * functions that bindgen and Rust can see. Each wraps one thing.
 */
#ifndef _RDMA_DMABUF_HELPERS_H
#define _RDMA_DMABUF_HELPERS_H

#include <linux/dma-buf.h>
#include <linux/rwsem.h>

struct dma_buf *rdma_dmabuf_helper_dma_buf_get(int fd);
struct dma_buf_attachment *
rdma_dmabuf_helper_attach(struct dma_buf *dmabuf, struct device *dev,
			  const struct dma_buf_attach_ops *ops, void *priv);
int rdma_dmabuf_helper_pin(struct dma_buf_attachment *attach);
struct sg_table *rdma_dmabuf_helper_map(struct dma_buf_attachment *attach);
long rdma_dmabuf_helper_wait(struct dma_resv *resv, unsigned long timeout);

bool rdma_dmabuf_helper_dma_buf_readable(struct dma_buf *dmabuf);
bool rdma_dmabuf_helper_dma_buf_writable(struct dma_buf *dmabuf);
u64 rdma_dmabuf_helper_dma_buf_inode(struct dma_buf *dmabuf);
void rdma_dmabuf_helper_might_lock_resv(struct dma_resv *resv);

int rdma_dmabuf_helper_dma_set_mask(struct device *dev, u64 mask);
void rdma_dmabuf_helper_dma_set_parms(struct device *dev,
				      struct device_dma_parameters *parms);
int rdma_dmabuf_helper_dma_mapping_error(struct device *dev, dma_addr_t addr);
bool rdma_dmabuf_helper_is_bounce_forced(struct device *dev);
phys_addr_t rdma_dmabuf_helper_dma_to_phys(struct device *dev, dma_addr_t addr);
bool rdma_dmabuf_helper_may_be_bounced(struct device *dev, dma_addr_t addr);
phys_addr_t rdma_dmabuf_helper_page_to_phys(struct page *page);
bool rdma_dmabuf_helper_is_system_ram(phys_addr_t phys, size_t bytes);
bool rdma_dmabuf_helper_is_ordinary_page(phys_addr_t phys);

bool rdma_dmabuf_helper_fatal_signal_pending(void);

void rdma_dmabuf_helper_might_lock_in_reclaim(struct rw_semaphore *sem);
bool rdma_dmabuf_helper_warn_unless_passed(struct rw_semaphore *sem);
void rdma_dmabuf_helper_warn_put_twice(void);
void rdma_dmabuf_helper_warn_put_accessed(void);

void rdma_dmabuf_helper_trace_map(u64 region, u64 ino, u64 blocks,
				  u64 block_size);
void rdma_dmabuf_helper_trace_unmap(u64 region);
void rdma_dmabuf_helper_trace_invalidate(u64 region);
void rdma_dmabuf_helper_trace_fault(u64 region);
void rdma_dmabuf_helper_trace_revoke(u64 region);

#endif /* _RDMA_DMABUF_HELPERS_H */
