/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * As much of libibverbs' interface as the preload needs. It is small and does
 * not change, so that no headers of libibverbs are needed to build, and one
 * build serves all of its releases.
 */
#ifndef _PRELOAD_VERBS_H
#define _PRELOAD_VERBS_H

#include <stddef.h>
#include <stdint.h>

struct ibv_context;
struct ibv_pd;

struct ibv_mr {
	struct ibv_context *context;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

/* For ibv_reg_mr_ex(), which came with release 59. */
enum {
	IBV_REG_MR_MASK_IOVA = 1 << 0,
	IBV_REG_MR_MASK_ADDR = 1 << 1,
};

struct ibv_mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
};

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
			  int access);
struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
			       uint64_t iova, int access);
struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
int ibv_dereg_mr(struct ibv_mr *mr);

#endif /* _PRELOAD_VERBS_H */
