/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the exporter needs of the kernel's inline functions, macros and static
 * tables, as functions that bindgen and Rust can see.
 */
#ifndef _VRAM_EXPORTER_HELPERS_H
#define _VRAM_EXPORTER_HELPERS_H

#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/ww_mutex.h>

struct page *vram_exporter_helper_alloc(unsigned int order);
void vram_exporter_helper_read(void *to, phys_addr_t from, size_t bytes);
void vram_exporter_helper_write(phys_addr_t to, const void *from, size_t bytes);
void vram_exporter_helper_copy(phys_addr_t to, phys_addr_t from, size_t bytes);
void vram_exporter_helper_fill(phys_addr_t to, u8 byte, size_t bytes);
bool vram_exporter_helper_is_all(phys_addr_t from, u8 byte, size_t bytes);
void *vram_exporter_helper_vmap(struct page **pages, unsigned int count);
void vram_exporter_helper_vunmap(void *addr);
struct page *vram_exporter_helper_phys_to_page(phys_addr_t phys);

void vram_exporter_helper_set_pages(struct scatterlist *sg, phys_addr_t phys,
				    u32 bytes);
void vram_exporter_helper_set_dma(struct scatterlist *sg, u64 addr, u32 bytes);

bool vram_exporter_helper_resv_trylock(struct dma_resv *resv);
bool vram_exporter_helper_resv_is_locked(struct dma_resv *resv);
bool vram_exporter_helper_resv_is_held(struct dma_resv *resv);
int vram_exporter_helper_resv_lock_both(struct dma_resv *a, struct dma_resv *b,
					struct ww_acquire_ctx *ctx);
void vram_exporter_helper_resv_unlock_both(struct dma_resv *a,
					   struct dma_resv *b,
					   struct ww_acquire_ctx *ctx);

struct dma_fence *vram_exporter_helper_fence_new(void);
void vram_exporter_helper_fence_signal_after(struct dma_fence *fence, u32 ms,
					     int error);
void vram_exporter_helper_fence_signal(struct dma_fence *fence, int error);
bool vram_exporter_helper_fence_is_signaled(struct dma_fence *fence);
u32 vram_exporter_helper_fence_waits(struct dma_fence *fence);
void vram_exporter_helper_fence_release(struct dma_fence *fence);

unsigned int vram_exporter_helper_reclaim_begin(void);
void vram_exporter_helper_reclaim_end(unsigned int flags);

int vram_exporter_helper_set_up_vma(struct vm_area_struct *vma,
				    const struct vm_operations_struct *ops,
				    void *data);
void vram_exporter_helper_zap(struct dma_buf *dmabuf);

struct task_struct *vram_exporter_helper_ticker_run(int (*run)(void *data),
						    void *data);
bool vram_exporter_helper_ticker_sleep(u64 us);
void vram_exporter_helper_ticker_stop(struct task_struct *task);

#endif /* _VRAM_EXPORTER_HELPERS_H */
