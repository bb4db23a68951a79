/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What bindgen reads: the C interfaces that kernel::bindings does not have.
 */
#include <rdma/ib_verbs.h>

#include "../include/rdma_dmabuf.h"
#include "helpers.h"

#ifdef CONFIG_RDMA_DMABUF_KUNIT_TEST
#include "../tests/exporter/helpers.h"
#include "../tests/kunit/helpers.h"
#include "../tests/kunit/reference.h"
#endif
