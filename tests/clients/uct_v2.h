/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Registration of dma-bufs by UCX's transport layer. libuct exports the call,
 * UCX's own protocols make it, and the installed headers leave it out. The
 * mask says which fields there are, so that later versions can add others
 * behind them.
 */
#ifndef CLIENTS_UCT_V2_H
#define CLIENTS_UCT_V2_H

#include <linux/types.h>
#include <uct/api/uct.h>

#define REG_FIELD_FLAGS		UCS_BIT(0)
#define REG_FIELD_DMABUF_FD	UCS_BIT(1)
#define REG_FIELD_DMABUF_OFFSET	UCS_BIT(2)

/**
 * struct uct_md_mem_reg_params - how memory is to be registered
 * @field_mask: which of the other fields count
 * @flags: what the memory is for
 * @dmabuf_fd: the dma-buf that it is memory of
 * @dmabuf_offset: where in the dma-buf it begins
 */
struct uct_md_mem_reg_params {
	__u64 field_mask;
	__u64 flags;
	int dmabuf_fd;
	size_t dmabuf_offset;
};

ucs_status_t uct_md_mem_reg_v2(uct_md_h md, void *address, size_t length,
			       const struct uct_md_mem_reg_params *params,
			       uct_mem_h *memory);

#endif /* CLIENTS_UCT_V2_H */
