/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What plugin.c uses of QEMU's interface for plug-ins, for which Debian 12 has
 * no header (QEMU: docs/devel/tcg-plugins.rst).
 */
#ifndef _COVERAGE_PLUGIN_H
#define _COVERAGE_PLUGIN_H

#include <stddef.h>

typedef unsigned long long u64;
typedef unsigned char u8;
typedef u64 qemu_plugin_id_t;

struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t id,
						      struct qemu_plugin_tb *tb));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
				    void (*cb)(qemu_plugin_id_t id, void *data),
				    void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t number);
u64 qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

#endif /* _COVERAGE_PLUGIN_H */
