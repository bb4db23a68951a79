// SPDX-License-Identifier: GPL-2.0-only
/*
 * A TCG plug-in that writes down which instructions of kernel modules were run,
 * in whatever context: `-plugin coverage.so,out=FILE`, one address a line.
 *
 * QEMU translates a block when it is about to run it, so seeing translations
 * is enough, and costs nothing once they are made. Interface as in QEMU's
 * docs/devel/tcg-plugins.rst.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int qemu_plugin_version = API;

/*
 * Where x86-64 has its modules (Documentation/arch/x86/x86_64/mm.rst); they
 * begin where the kernel's image ends, which is here without RANDOMIZE_BASE.
 */
#define MODULES_START	0xffffffffa0000000ULL
#define MODULES_END	0xffffffffff000000ULL
#define BYTES		((MODULES_END - MODULES_START) / 8)

static u8 *seen;
static char *path;

/* Two processors may set bits of one byte. */
static void note(u64 address)
{
	u64 bit = address - MODULES_START;

	__atomic_fetch_or(&seen[bit / 8], 1 << bit % 8, __ATOMIC_RELAXED);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t number, count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (number = 0; number < count; number++) {
		u64 address =
			qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, number));

		if (address >= MODULES_START && address < MODULES_END)
			note(address);
	}
}

static void on_exit_of_qemu(qemu_plugin_id_t id, void *data)
{
	FILE *file = fopen(path, "w");
	u64 bit;

	(void)id;
	(void)data;
	if (!file)
		return;
	for (bit = 0; bit < MODULES_END - MODULES_START; bit++) {
		if (!seen[bit / 8])
			bit |= 7;
		else if (seen[bit / 8] & (1 << bit % 8))
			fprintf(file, "0x%llx\n", MODULES_START + bit);
	}
	fclose(file);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
			       const struct qemu_info_t *info, int argc,
			       char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "coverage: give out=FILE, and nothing else\n");
		return -1;
	}
	path = strdup(argv[0] + 4);
	/* Only the pages that are written to are ever there. */
	seen = calloc(1, BYTES);
	if (!path || !seen)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_qemu, NULL);
	return 0;
}
