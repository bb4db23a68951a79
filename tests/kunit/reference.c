// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel core's importer for the KUnit suites: inline functions and fields.
 */
#include <linux/dma-buf.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

#include "reference.h"

/* All that ib_umem_dmabuf_get() reads of a device is where it does DMA. */
struct ib_device *rdma_dmabuf_test_ib_device_new(struct device *dma_device)
{
	struct ib_device *ibdev = kzalloc_obj(*ibdev);

	if (ibdev)
		ibdev->dma_device = dma_device;
	return ibdev;
}

void rdma_dmabuf_test_ib_device_free(struct ib_device *ibdev)
{
	kfree(ibdev);
}

struct ib_umem *rdma_dmabuf_test_umem(struct ib_umem_dmabuf *umem)
{
	return &umem->umem;
}

/* NULL if nothing is mapped. */
struct sg_table *rdma_dmabuf_test_umem_table(struct ib_umem_dmabuf *umem)
{
	return umem->sgt;
}

struct dma_resv *rdma_dmabuf_test_umem_resv(struct ib_umem_dmabuf *umem)
{
	return umem->attach->dmabuf->resv;
}

size_t rdma_dmabuf_test_umem_num_dma_blocks(struct ib_umem *umem,
					    unsigned long pgsz)
{
	return ib_umem_num_dma_blocks(umem, pgsz);
}

void rdma_dmabuf_test_umem_block_iter_start(struct ib_block_iter *biter,
					    struct ib_umem *umem,
					    unsigned long pgsz)
{
	__rdma_umem_block_iter_start(biter, umem, pgsz);
}

bool rdma_dmabuf_test_umem_block_iter_next(struct ib_block_iter *biter)
{
	return __rdma_umem_block_iter_next(biter);
}

dma_addr_t rdma_dmabuf_test_block_iter_dma_address(struct ib_block_iter *biter)
{
	return rdma_block_iter_dma_address(biter);
}
