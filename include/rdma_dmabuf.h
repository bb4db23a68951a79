/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * rdma_dmabuf: dma-bufs as memory regions of RDMA drivers, the C contract.
 *
 * A driver that may be loaded without the importer uses the same calls through
 * the registry, <rdma/ib_dmabuf_importer.h>, where the structures used here are
 * described; rxe does. A driver that links against the importer itself uses
 * the functions below and needs MODULE_IMPORT_NS("RDMA_DMABUF").
 *
 * Order of the calls for one region:
 *
 *	get ─▶ { access_begin ─▶ access_end }* ─▶ shutdown (optional) ─▶ put
 *
 * Locks: every function may sleep, and none may be called with the dma_resv
 * of any dma-buf held (Documentation/driver-api/dma-buf.rst, "locking
 * convention"), except rdma_dmabuf_access_end(), which takes none.
 */
#ifndef _RDMA_DMABUF_H
#define _RDMA_DMABUF_H

#include <rdma/ib_dmabuf_importer.h>

struct rdma_dmabuf_region;

/**
 * rdma_dmabuf_get() - make a stretch of a dma-buf ready for RDMA
 * @attr: what is wanted; read during the call only
 *
 * Attaches to the dma-buf as a dynamic importer without peer-to-peer, maps it,
 * and waits until the exporter's KERNEL fences have signalled or a fatal
 * signal arrives. What is wrong with @attr is judged in this order:
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
 * * -EOPNOTSUPP: no DMA device was given, and the memory is not system RAM
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
 * rdma_dmabuf_shutdown(), -ETIMEDOUT if the fences took too long, or the
 * exporter's code.
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

#endif /* _RDMA_DMABUF_H */
