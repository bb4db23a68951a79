// SPDX-License-Identifier: GPL-2.0-only
/*
 * librdmabuf-mr.so: the functions of libibverbs that it takes the place of.
 * README.md says how to use it and what it cannot do.
 */
#include "register.h"
#include "verbs.h"

/* libibverbs calls itself by names that are ours; not 0 while it does. */
static __thread unsigned int plain_depth;

static void *begin_plain(const char *name)
{
	plain_depth++;
	return real(name);
}

static struct ibv_mr *end_plain(struct ibv_mr *mr)
{
	plain_depth--;
	return mr;
}

/* Whether @mr is what the program gets, NULL included. */
static bool is_done(const struct request *request, struct ibv_mr **mr)
{
	bool is_plain;

	if (plain_depth)
		return false;
	*mr = register_mr(request, &is_plain);
	return !is_plain;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
				 int access)
{
	const struct request request = {
		.function = "ibv_reg_mr",
		.pd = pd,
		.addr = addr,
		.length = length,
		.iova = (uintptr_t)addr,
		.access = access,
	};
	__typeof__(ibv_reg_mr) *reg;
	struct ibv_mr *mr;

	if (is_done(&request, &mr))
		return mr;
	reg = begin_plain("ibv_reg_mr");
	return end_plain(reg ? reg(pd, addr, length, access) : NULL);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr,
				      size_t length, uint64_t iova, int access)
{
	const struct request request = {
		.function = "ibv_reg_mr_iova",
		.pd = pd,
		.addr = addr,
		.length = length,
		.iova = iova,
		.access = access,
	};
	__typeof__(ibv_reg_mr_iova) *reg;
	struct ibv_mr *mr;

	if (is_done(&request, &mr))
		return mr;
	reg = begin_plain("ibv_reg_mr_iova");
	return end_plain(reg ? reg(pd, addr, length, iova, access) : NULL);
}

/* What the macro ibv_reg_mr() of newer headers calls, unless access is constant. */
EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr,
				       size_t length, uint64_t iova,
				       unsigned int access)
{
	const struct request request = {
		.function = "ibv_reg_mr_iova2",
		.pd = pd,
		.addr = addr,
		.length = length,
		.iova = iova,
		.access = access,
	};
	__typeof__(ibv_reg_mr_iova2) *reg;
	struct ibv_mr *mr;

	if (is_done(&request, &mr))
		return mr;
	reg = begin_plain("ibv_reg_mr_iova2");
	return end_plain(reg ? reg(pd, addr, length, iova, access) : NULL);
}

/* Of a program's own dma-buf, or of memory by its address. */
EXPORT struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd,
				    struct ibv_mr_init_attr *attr)
{
	const uint64_t ours = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA;
	const struct request request = {
		.function = "ibv_reg_mr_ex",
		.pd = pd,
		.addr = attr->addr,
		.length = attr->length,
		.iova = attr->comp_mask & IBV_REG_MR_MASK_IOVA ?
			attr->iova : (uintptr_t)attr->addr,
		.access = attr->access,
		.has_more = attr->comp_mask & ~ours,
	};
	__typeof__(ibv_reg_mr_ex) *reg;
	struct ibv_mr *mr;

	if (attr->comp_mask & IBV_REG_MR_MASK_ADDR && is_done(&request, &mr))
		return mr;
	reg = begin_plain("ibv_reg_mr_ex");
	return end_plain(reg ? reg(pd, attr) : NULL);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	return deregister_mr(mr);
}
