/* SPDX-License-Identifier: GPL-2.0-only */
/* Registrations that become dma-buf MRs. */
#ifndef _PRELOAD_REGISTER_H
#define _PRELOAD_REGISTER_H

#include "settings.h"

struct ibv_mr;

/**
 * register_mr() - register memory as a dma-buf MR
 * @request: what the program asks for
 * @is_plain: whether it is to become a plain MR instead
 *
 * Return: the MR, or NULL with errno.
 */
struct ibv_mr *register_mr(const struct request *request, bool *is_plain);

/* As ibv_dereg_mr(), for any MR. */
int deregister_mr(struct ibv_mr *mr);

/* libibverbs' own function of that name, or NULL with errno. */
void *real(const char *name);

#endif /* _PRELOAD_REGISTER_H */
