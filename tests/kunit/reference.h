/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the KUnit suites need of the kernel core's importer, with which ours is
 * compared: its inline functions, and fields of its structures.
 */
#ifndef _RDMA_DMABUF_KUNIT_REFERENCE_H
#define _RDMA_DMABUF_KUNIT_REFERENCE_H

#include <rdma/ib_umem.h>
#include <rdma/iter.h>

struct ib_device *rdma_dmabuf_test_ib_device_new(struct device *dma_device);
void rdma_dmabuf_test_ib_device_free(struct ib_device *ibdev);

struct ib_umem *rdma_dmabuf_test_umem(struct ib_umem_dmabuf *umem);
struct sg_table *rdma_dmabuf_test_umem_table(struct ib_umem_dmabuf *umem);
struct dma_resv *rdma_dmabuf_test_umem_resv(struct ib_umem_dmabuf *umem);

size_t rdma_dmabuf_test_umem_num_dma_blocks(struct ib_umem *umem,
					    unsigned long pgsz);
void rdma_dmabuf_test_umem_block_iter_start(struct ib_block_iter *biter,
					    struct ib_umem *umem,
					    unsigned long pgsz);
bool rdma_dmabuf_test_umem_block_iter_next(struct ib_block_iter *biter);
dma_addr_t rdma_dmabuf_test_block_iter_dma_address(struct ib_block_iter *biter);

#endif /* _RDMA_DMABUF_KUNIT_REFERENCE_H */
