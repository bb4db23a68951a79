// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inline functions, macros and static tables of the kernel for the exporter.
 */
#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/lockdep.h>
#include <linux/pfn.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

#include "helpers.h"

/* Memory that is not there is an error, and nobody is killed for it. */
struct page *vram_exporter_helper_alloc(unsigned int order)
{
	return alloc_pages(GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL,
			   order);
}

void vram_exporter_helper_read(void *to, phys_addr_t from, size_t bytes)
{
	memcpy(to, phys_to_virt(from), bytes);
}

void vram_exporter_helper_write(phys_addr_t to, const void *from, size_t bytes)
{
	memcpy(phys_to_virt(to), from, bytes);
}

void vram_exporter_helper_copy(phys_addr_t to, phys_addr_t from, size_t bytes)
{
	memcpy(phys_to_virt(to), phys_to_virt(from), bytes);
}

void vram_exporter_helper_fill(phys_addr_t to, u8 byte, size_t bytes)
{
	memset(phys_to_virt(to), byte, bytes);
}

bool vram_exporter_helper_is_all(phys_addr_t from, u8 byte, size_t bytes)
{
	return !memchr_inv(phys_to_virt(from), byte, bytes);
}

void *vram_exporter_helper_vmap(struct page **pages, unsigned int count)
{
	return vmap(pages, count, VM_MAP, PAGE_KERNEL);
}

void vram_exporter_helper_vunmap(void *addr)
{
	vunmap(addr);
}

struct page *vram_exporter_helper_phys_to_page(phys_addr_t phys)
{
	return pfn_to_page(PHYS_PFN(phys));
}

void vram_exporter_helper_set_pages(struct scatterlist *sg, phys_addr_t phys,
				    u32 bytes)
{
	sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), bytes, 0);
}

void vram_exporter_helper_set_dma(struct scatterlist *sg, u64 addr, u32 bytes)
{
	sg_dma_address(sg) = addr;
	sg_dma_len(sg) = bytes;
}

bool vram_exporter_helper_resv_trylock(struct dma_resv *resv)
{
	return dma_resv_trylock(resv);
}

bool vram_exporter_helper_resv_is_locked(struct dma_resv *resv)
{
	return dma_resv_is_locked(resv);
}

/* By the current task; only lockdep knows. */
bool vram_exporter_helper_resv_is_held(struct dma_resv *resv)
{
#ifdef CONFIG_LOCKDEP
	return debug_locks && lockdep_is_held(&resv->lock.base);
#else
	return false;
#endif
}

/* -EALREADY if they are the same; nothing is locked then. */
int vram_exporter_helper_resv_lock_both(struct dma_resv *a, struct dma_resv *b,
					struct ww_acquire_ctx *ctx)
{
	int err;

	ww_acquire_init(ctx, &reservation_ww_class);
	/* Who holds nothing is never told to yield. */
	err = dma_resv_lock(a, ctx);
	while (!err) {
		err = dma_resv_lock(b, ctx);
		if (!err) {
			ww_acquire_done(ctx);
			return 0;
		}
		dma_resv_unlock(a);
		if (err == -EDEADLK) {
			dma_resv_lock_slow(b, ctx);
			swap(a, b);
			err = 0;
		}
	}
	ww_acquire_fini(ctx);
	return err;
}

void vram_exporter_helper_resv_unlock_both(struct dma_resv *a,
					   struct dma_resv *b,
					   struct ww_acquire_ctx *ctx)
{
	dma_resv_unlock(a);
	dma_resv_unlock(b);
	ww_acquire_fini(ctx);
}

struct exporter_fence {
	struct dma_fence base;
	struct timer_list timer;
	atomic_t waits;
	int error;
};

static struct exporter_fence *to_exporter_fence(struct dma_fence *fence)
{
	return container_of(fence, struct exporter_fence, base);
}

static const char *exporter_fence_name(struct dma_fence *fence)
{
	return "vram_exporter";
}

static signed long exporter_fence_wait(struct dma_fence *fence, bool intr,
				       signed long timeout)
{
	atomic_inc(&to_exporter_fence(fence)->waits);
	return dma_fence_default_wait(fence, intr, timeout);
}

static const struct dma_fence_ops exporter_fence_ops = {
	.get_driver_name = exporter_fence_name,
	.get_timeline_name = exporter_fence_name,
	.wait = exporter_fence_wait,
};

void vram_exporter_helper_fence_signal(struct dma_fence *fence, int error)
{
	unsigned long flags;

	dma_fence_lock_irqsave(fence, flags);
	if (!dma_fence_is_signaled_locked(fence)) {
		if (error)
			dma_fence_set_error(fence, error);
		dma_fence_signal_locked(fence);
	}
	dma_fence_unlock_irqrestore(fence, flags);
}

static void exporter_fence_expired(struct timer_list *timer)
{
	struct exporter_fence *fence = timer_container_of(fence, timer, timer);

	vram_exporter_helper_fence_signal(&fence->base, fence->error);
}

struct dma_fence *vram_exporter_helper_fence_new(void)
{
	struct exporter_fence *fence = kzalloc_obj(*fence);

	if (!fence)
		return NULL;
	timer_setup(&fence->timer, exporter_fence_expired, 0);
	dma_fence_init(&fence->base, &exporter_fence_ops, NULL,
		       dma_fence_context_alloc(1), 1);
	return &fence->base;
}

/* Once for a fence. */
void vram_exporter_helper_fence_signal_after(struct dma_fence *fence, u32 ms,
					     int error)
{
	to_exporter_fence(fence)->error = error;
	mod_timer(&to_exporter_fence(fence)->timer,
		  jiffies + msecs_to_jiffies(ms));
}

bool vram_exporter_helper_fence_is_signaled(struct dma_fence *fence)
{
	return dma_fence_is_signaled(fence);
}

/* How often somebody went to sleep on @fence. */
u32 vram_exporter_helper_fence_waits(struct dma_fence *fence)
{
	return atomic_read(&to_exporter_fence(fence)->waits);
}

/* Gives up the maker's reference; nobody is left waiting. */
void vram_exporter_helper_fence_release(struct dma_fence *fence)
{
	timer_shutdown_sync(&to_exporter_fence(fence)->timer);
	vram_exporter_helper_fence_signal(fence, 0);
	dma_fence_put(fence);
}

/* Until the end, lockdep and the allocator take the task for one that reclaims. */
unsigned int vram_exporter_helper_reclaim_begin(void)
{
	fs_reclaim_acquire(GFP_KERNEL);
	return memalloc_noreclaim_save();
}

void vram_exporter_helper_reclaim_end(unsigned int flags)
{
	memalloc_noreclaim_restore(flags);
	fs_reclaim_release(GFP_KERNEL);
}

/* Shared mappings alone: a private one would not see a move. */
int vram_exporter_helper_set_up_vma(struct vm_area_struct *vma,
				    const struct vm_operations_struct *ops,
				    void *data)
{
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = ops;
	vma->vm_private_data = data;
	return 0;
}

/*
 * The last reference on the file takes the inode along before the exporter is
 * told of it (__fput()), while a buffer may be moving by itself. Nobody has it
 * mapped any more then.
 */
void vram_exporter_helper_zap(struct dma_buf *dmabuf)
{
	struct file *file = get_file_active(&dmabuf->file);

	if (!file)
		return;
	unmap_mapping_range(file->f_mapping, 0, 0, 1);
	fput(file);
}

struct task_struct *vram_exporter_helper_ticker_run(int (*run)(void *data),
						    void *data)
{
	struct task_struct *task;

	task = kthread_create(run, data, "vram_exporter");
	if (IS_ERR(task))
		return task;
	get_task_struct(task);
	wake_up_process(task);
	return task;
}

/* Whether the thread is to go on. */
bool vram_exporter_helper_ticker_sleep(u64 us)
{
	ktime_t delay = us_to_ktime(us);

	set_current_state(TASK_INTERRUPTIBLE);
	if (!kthread_should_stop())
		schedule_hrtimeout(&delay, HRTIMER_MODE_REL);
	__set_current_state(TASK_RUNNING);
	return !kthread_should_stop();
}

/* Waits until the thread's function has returned, or never begun. */
void vram_exporter_helper_ticker_stop(struct task_struct *task)
{
	kthread_stop_put(task);
}
