/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A shrinker whose functions know nothing of struct shrinker.
 */
#ifndef _VRAM_EXPORTER_SHRINKER_GLUE_H
#define _VRAM_EXPORTER_SHRINKER_GLUE_H

struct vram_exporter_shrinker;

struct vram_exporter_shrinker *
vram_exporter_shrinker_new(unsigned long (*count)(const void *data),
			   unsigned long (*scan)(const void *data,
						 unsigned long most),
			   const void *data);
void vram_exporter_shrinker_free(struct vram_exporter_shrinker *shrinker);

#endif /* _VRAM_EXPORTER_SHRINKER_GLUE_H */
