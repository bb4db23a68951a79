/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma_dmabuf: dma-bufs as memory regions of RDMA drivers, the C contract.
 *
 * A driver that may be loaded without the importer uses the same calls through
 * the registry, <rdma/ib_dmabuf_importer.h>, where the structures used here are
 * described; rxe does. A driver that links against the importer itself uses
 * the functions below and needs MODULE_IMPORT_NS("RDMA_DMABUF").
 *
 * There are two ways to use the memory, and a driver may mix them:
 *
 * * It copies with the CPU, or for another reason asks with every access:
 *
 *	get ─▶ { access_begin ─▶ access_end }* ─▶ shutdown (optional) ─▶ put
 *
 * * Its device has a translation table, which follows the calls of
 *   &struct rdma_dmabuf_driver_ops:
 *
 *	get_with_ops ─▶ { map ─▶ unmap }* ─▶ revoked (at most once) ─▶ put
 *
 *   After an unmap the device fails, and rdma_dmabuf_map() has the region
 *   mapped again.
 *
 * What becomes of a region whose dma-buf wants to move is its &enum
 * ib_dmabuf_mode. Dynamic is for devices that can fault, or stop and go on;
 * revocable for those that can invalidate a key but not fault; pinned for all
 * others, and exporters may refuse it. An exporter that moves the dma-buf while
 * it pins or maps it for the region does not revoke it.
 *
 * Locks: every function may sleep, and none may be called with the dma_resv
 * of any dma-buf held (Documentation/driver-api/dma-buf.rst, "locking
 * convention"), except rdma_dmabuf_access_end(), which takes none.
 *
 * What breaks the order above is warned of once and has no effect: an access
 * that ends without having begun, a put during an access, a second put.
 */
#ifndef _RDMA_DMABUF_H
#define _RDMA_DMABUF_H

#include <rdma/ib_dmabuf_importer.h>

struct rdma_dmabuf_region;

/**
 * struct rdma_dmabuf_driver_ops - what a device does when memory comes and goes
 * @map: take over the blocks of @view, which is valid during the call; they
 *	may be used until @unmap returns. The content is in place: the exporter's
 *	KERNEL fences have signalled. May sleep and allocate. A negative errno
 *	leaves the region unmapped and is passed on to who wanted it mapped.
 * @unmap: do not touch the blocks any more once this returns. Follows a @map
 *	that returned 0, once. Must not allocate, and not wait for user space or
 *	a peer: the exporter may be reclaiming memory.
 * @revoked: let the key fail from now on, for there will be no memory again.
 *	The key stays taken until the region is put. Called at most once, after
 *	@unmap if there was memory, under the rules of @unmap.
 *
 * Each may be NULL. The calls for a region come one at a time, with the
 * dma_resv of the dma-buf held, from any task, and as early as within
 * rdma_dmabuf_get_with_ops(). None may take a dma_resv, fault on user memory
 * or call a function of the region.
 */
struct rdma_dmabuf_driver_ops {
	int (*map)(void *priv, const struct ib_dmabuf_view *view);
	void (*unmap)(void *priv);
	void (*revoked)(void *priv);
};

/**
 * rdma_dmabuf_get() - make a stretch of a dma-buf ready for RDMA
 * @attr: what is wanted; read during the call only
 *
 * Attaches to the dma-buf without peer-to-peer, in the mode that the module
 * parameter mode= says (dynamic by default), maps it, and waits until the
 * exporter's KERNEL fences have signalled or a fatal signal arrives. What is
 * wrong with @attr is judged in this order:
 *
 * * -EINVAL: @attr->offset or @attr->iova plus @attr->length wraps, or offset
 *   and iova disagree below PAGE_SIZE
 * * -EBADF, -EINVAL: @attr->fd is not open, or is no dma-buf (dma_buf_get())
 * * -EINVAL: the stretch ends beyond the dma-buf
 * * -EINVAL: @attr->length is 0
 * * -EACCES: @attr->access needs a right that the dma-buf was not opened with:
 *   reading always, writing for local write, remote write and remote atomic.
 *   The module parameter check_rights=0 turns this off
 * * -EINVAL: the table of the exporter is malformed, or none of
 *   @attr->block_sizes fits it
 * * -EOPNOTSUPP: no DMA device was given, and the memory is not system RAM; or
 *   the one that was given cannot reach it, and has a bounce buffer instead
 * * -EINTR: a fatal signal ended the wait for fences
 * * anything else: the exporter's own code, unchanged
 *
 * Context: May sleep.
 * Return: The region, owned by the caller until rdma_dmabuf_put(), or an
 * ERR_PTR.
 */
struct rdma_dmabuf_region *
rdma_dmabuf_get(const struct ib_dmabuf_region_attr *attr);

/**
 * rdma_dmabuf_get_with_ops() - rdma_dmabuf_get() for a driver with a device
 * @attr: what is wanted; read during the call only
 * @mode: what becomes of the region when its dma-buf wants to move
 * @ops: functions of the driver, copied; NULL for none
 * @priv: handed to the functions; the driver's, alive until rdma_dmabuf_put()
 *	has returned
 *
 * As rdma_dmabuf_get(), and then has @ops->map take the blocks over.
 *
 * Context: May sleep.
 * Return: As rdma_dmabuf_get(); also -EINVAL for an unknown @mode, which is
 * judged first, the code of @ops->map, and -ENODEV if the memory was revoked
 * meanwhile.
 */
struct rdma_dmabuf_region *
rdma_dmabuf_get_with_ops(const struct ib_dmabuf_region_attr *attr,
			 enum ib_dmabuf_mode mode,
			 const struct rdma_dmabuf_driver_ops *ops, void *priv);

/**
 * rdma_dmabuf_map() - have a region mapped that a move has unmapped
 * @region: the region
 *
 * Does nothing if it is mapped. Otherwise maps it, waits for the exporter's
 * KERNEL fences as rdma_dmabuf_access_begin() does, and has the driver's map
 * function take the blocks over. They may be gone again when this returns.
 *
 * Context: May sleep.
 * Return: 0, -EINVAL once the region is revoked, -ENODEV after
 * rdma_dmabuf_shutdown(), -ETIMEDOUT if the fences took too long, the code of
 * the driver's map function, or the exporter's code.
 */
int rdma_dmabuf_map(struct rdma_dmabuf_region *region);

/**
 * rdma_dmabuf_revoke() - take the memory of a region away for ever
 * @region: the region
 *
 * Waits for accesses under way, unmaps, unpins and tells the driver. Works in
 * every mode; the second time does nothing. The region still has to be put.
 *
 * Context: May sleep.
 */
void rdma_dmabuf_revoke(struct rdma_dmabuf_region *region);

/**
 * rdma_dmabuf_shutdown() - let no further access to a region succeed
 * @region: the region
 *
 * Accesses that wait for the exporter's fences give up within about 10 ms.
 *
 * Context: May sleep.
 */
void rdma_dmabuf_shutdown(struct rdma_dmabuf_region *region);

/**
 * rdma_dmabuf_put() - give a region up
 * @region: the region; no access may be or come under way
 *
 * Unmaps, detaches and drops the reference on the dma-buf. Waits for the
 * dma_resv, so it takes as long as the exporter holds it.
 *
 * Context: May sleep.
 */
void rdma_dmabuf_put(struct rdma_dmabuf_region *region);

/**
 * rdma_dmabuf_access_begin() - hold the blocks of a region still
 * @region: the region
 * @iova: first byte to be touched
 * @length: number of bytes to be touched
 * @view: filled on success, valid until rdma_dmabuf_access_end()
 *
 * If the dma-buf has moved, maps it again and waits for the exporter's KERNEL
 * fences, up to fence_timeout_ms (a module parameter, 100 by default, at most
 * 10000). Between success and rdma_dmabuf_access_end() the exporter cannot
 * move the dma-buf: copy or do one atomic operation, and do not allocate,
 * fault, sleep, take a dma_resv or begin another access.
 *
 * Context: May sleep.
 * Return: 0, -EINVAL if the range is not within the region, -ENODEV after
 * rdma_dmabuf_shutdown() and once the region is revoked, -ETIMEDOUT if the
 * fences took too long, the code of the driver's map function, or the
 * exporter's code, which need not be for ever in dynamic mode.
 */
int rdma_dmabuf_access_begin(struct rdma_dmabuf_region *region, u64 iova,
			     u64 length, struct ib_dmabuf_view *view);

/**
 * rdma_dmabuf_access_end() - let the exporter move the dma-buf again
 * @region: the region of a successful rdma_dmabuf_access_begin()
 *
 * Context: The task that began the access.
 */
void rdma_dmabuf_access_end(struct rdma_dmabuf_region *region);

/**
 * rdma_dmabuf_query() - what a region is like
 * @region: the region
 * @info: filled
 *
 * Context: Any but NMI. Takes no lock, so what it tells belongs together only
 * as long as nothing changes.
 */
void rdma_dmabuf_query(struct rdma_dmabuf_region *region,
		       struct ib_dmabuf_region_info *info);

#endif /* _RDMA_DMABUF_H */
