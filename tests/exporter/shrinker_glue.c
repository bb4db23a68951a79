// SPDX-License-Identifier: GPL-2.0-only
#include <linux/shrinker.h>
#include <linux/slab.h>

#include "shrinker_glue.h"

struct vram_exporter_shrinker {
	struct shrinker *shrinker;
	unsigned long (*count)(const void *data);
	unsigned long (*scan)(const void *data, unsigned long most);
	const void *data;
};

static unsigned long count_objects(struct shrinker *shrinker,
				   struct shrink_control *control)
{
	struct vram_exporter_shrinker *ours = shrinker->private_data;

	return ours->count(ours->data);
}

static unsigned long scan_objects(struct shrinker *shrinker,
				  struct shrink_control *control)
{
	struct vram_exporter_shrinker *ours = shrinker->private_data;
	unsigned long taken = ours->scan(ours->data, control->nr_to_scan);

	return taken ?: SHRINK_STOP;
}

/* @count and @scan may be called before this has returned. */
struct vram_exporter_shrinker *
vram_exporter_shrinker_new(unsigned long (*count)(const void *data),
			   unsigned long (*scan)(const void *data,
						 unsigned long most),
			   const void *data)
{
	struct vram_exporter_shrinker *ours = kzalloc_obj(*ours);

	if (!ours)
		return NULL;
	ours->shrinker = shrinker_alloc(0, "vram_exporter");
	if (!ours->shrinker) {
		kfree(ours);
		return NULL;
	}
	ours->count = count;
	ours->scan = scan;
	ours->data = data;
	ours->shrinker->count_objects = count_objects;
	ours->shrinker->scan_objects = scan_objects;
	ours->shrinker->private_data = ours;
	shrinker_register(ours->shrinker);
	return ours;
}

/* Neither function is called any more when this has returned. */
void vram_exporter_shrinker_free(struct vram_exporter_shrinker *ours)
{
	shrinker_free(ours->shrinker);
	kfree(ours);
}
