// SPDX-License-Identifier: GPL-2.0-only
/*
 * The C contract, offered to other modules; the functions are in ffi.rs.
 */
#include <linux/export.h>
#include <linux/module.h>

#include "../include/rdma_dmabuf.h"

EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_get, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_get_with_ops, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_map, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_revoke, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_shutdown, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_put, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_access_begin, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_access_end, "RDMA_DMABUF");
EXPORT_SYMBOL_NS_GPL(rdma_dmabuf_query, "RDMA_DMABUF");

/* module! has no key for it. */
MODULE_VERSION("0.1.0");
