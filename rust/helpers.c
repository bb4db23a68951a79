// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inline functions and macros of the kernel for the importer's Rust code.
 */
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/error-injection.h>
#include <linux/fs.h>
#include <linux/ioport.h>
#include <linux/lockdep.h>
#include <linux/memory_hotplug.h>
#include <linux/memremap.h>
#include <linux/pfn.h>
#include <linux/rwsem.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/swiotlb.h>

#include "helpers.h"

#ifndef CONFIG_X86_64
#error "rdma_dmabuf: build for x86-64; elsewhere its own DMA device may be non-coherent"
#endif

/*
 * Calls of dma-buf that may fail, each by a name of ours: fault injection
 * (fail_function) can let it fail whatever the exporter is.
 */
struct dma_buf *rdma_dmabuf_helper_dma_buf_get(int fd)
{
	return dma_buf_get(fd);
}
ALLOW_ERROR_INJECTION(rdma_dmabuf_helper_dma_buf_get, ERRNO);

struct dma_buf_attachment *
rdma_dmabuf_helper_attach(struct dma_buf *dmabuf, struct device *dev,
			  const struct dma_buf_attach_ops *ops, void *priv)
{
	return dma_buf_dynamic_attach(dmabuf, dev, ops, priv);
}
ALLOW_ERROR_INJECTION(rdma_dmabuf_helper_attach, ERRNO);

int rdma_dmabuf_helper_pin(struct dma_buf_attachment *attach)
{
	return dma_buf_pin(attach);
}
ALLOW_ERROR_INJECTION(rdma_dmabuf_helper_pin, ERRNO);

struct sg_table *rdma_dmabuf_helper_map(struct dma_buf_attachment *attach)
{
	return dma_buf_map_attachment(attach, DMA_BIDIRECTIONAL);
}
ALLOW_ERROR_INJECTION(rdma_dmabuf_helper_map, ERRNO);

long rdma_dmabuf_helper_wait(struct dma_resv *resv, unsigned long timeout)
{
	return dma_resv_wait_timeout(resv, DMA_RESV_USAGE_KERNEL, false,
				     timeout);
}
ALLOW_ERROR_INJECTION(rdma_dmabuf_helper_wait, ERRNO);

bool rdma_dmabuf_helper_dma_buf_readable(struct dma_buf *dmabuf)
{
	return dmabuf->file->f_mode & FMODE_READ;
}

bool rdma_dmabuf_helper_dma_buf_writable(struct dma_buf *dmabuf)
{
	return dmabuf->file->f_mode & FMODE_WRITE;
}

u64 rdma_dmabuf_helper_dma_buf_inode(struct dma_buf *dmabuf)
{
	return file_inode(dmabuf->file)->i_ino;
}

void rdma_dmabuf_helper_might_lock_resv(struct dma_resv *resv)
{
	might_sleep();
	might_lock(&resv->lock.base);
}

int rdma_dmabuf_helper_dma_set_mask(struct device *dev, u64 mask)
{
	return dma_coerce_mask_and_coherent(dev, mask);
}

void rdma_dmabuf_helper_dma_set_parms(struct device *dev,
				      struct device_dma_parameters *parms)
{
	dev->dma_parms = parms;
	dma_set_max_seg_size(dev, UINT_MAX);
	dma_set_seg_boundary(dev, ULONG_MAX);
}

int rdma_dmabuf_helper_dma_mapping_error(struct device *dev, dma_addr_t addr)
{
	return dma_mapping_error(dev, addr);
}

bool rdma_dmabuf_helper_is_bounce_forced(struct device *dev)
{
	return is_swiotlb_force_bounce(dev);
}

phys_addr_t rdma_dmabuf_helper_dma_to_phys(struct device *dev, dma_addr_t addr)
{
	return dma_to_phys(dev, addr);
}

/*
 * For memory of a coherent device, which needs no synchronization otherwise. A
 * device that has had no bounce buffer yet has none now, which is all that can
 * be told behind an IOMMU.
 */
bool rdma_dmabuf_helper_may_be_bounced(struct device *dev, dma_addr_t addr)
{
	return !dev_dma_skip_sync(dev) && dma_need_sync(dev, addr);
}

phys_addr_t rdma_dmabuf_helper_page_to_phys(struct page *page)
{
	return page_to_phys(page);
}

bool rdma_dmabuf_helper_is_system_ram(phys_addr_t phys, size_t bytes)
{
	return region_intersects(phys, bytes, IORESOURCE_SYSTEM_RAM,
				 IORES_DESC_NONE) == REGION_INTERSECTS;
}

bool rdma_dmabuf_helper_is_ordinary_page(phys_addr_t phys)
{
	struct page *page = pfn_to_online_page(PHYS_PFN(phys));

	return page && !is_zone_device_page(page);
}

bool rdma_dmabuf_helper_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}

/* For lockdep: exporters take mappings away to reclaim memory. */
void rdma_dmabuf_helper_might_lock_in_reclaim(struct rw_semaphore *sem)
{
	fs_reclaim_acquire(GFP_KERNEL);
	might_lock(sem);
	fs_reclaim_release(GFP_KERNEL);
}

/* Only lockdep knows whose lock it is. */
static bool is_passed(struct rw_semaphore *sem)
{
#ifdef CONFIG_LOCKDEP
	if (debug_locks)
		return lockdep_is_held(sem);
#endif
	return rwsem_is_locked(sem);
}

bool rdma_dmabuf_helper_warn_unless_passed(struct rw_semaphore *sem)
{
	return !WARN_ONCE(!is_passed(sem),
			  "rdma_dmabuf: an access ends that has not begun: the driver must pair them\n");
}

void rdma_dmabuf_helper_warn_put_twice(void)
{
	WARN_ONCE(1, "rdma_dmabuf: a region is put that is not there: the driver must put it once\n");
}

void rdma_dmabuf_helper_warn_put_accessed(void)
{
	WARN_ONCE(1, "rdma_dmabuf: a region is put during an access and stays: the driver must end that first\n");
}
