/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ioctls of /dev/rdma_dmabuf_edu. An open file has one region and one copy
 * of the device's buffer at most at a time.
 */
#ifndef _RDMA_DMABUF_EDU_UAPI_H
#define _RDMA_DMABUF_EDU_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct edu_register - a stretch of a dma-buf for the device
 * @fd: the dma-buf
 * @mode: enum ib_dmabuf_mode
 * @offset: first byte of the stretch
 * @length: its length in bytes
 */
struct edu_register {
	__s32 fd;
	__u32 mode;
	__u64 offset;
	__u64 length;
};

/* To or from the device's own buffer; in place of the region's addresses of
 * now those that it had last, as broken hardware would.
 */
#define EDU_COPY_TO_MEMORY	0x1
#define EDU_COPY_STALE		0x2

/**
 * struct edu_copy - one transfer of the device
 * @offset: first byte within the region
 * @length: number of bytes, 2048 at most, within one page
 * @flags: EDU_COPY_*
 */
struct edu_copy {
	__u64 offset;
	__u32 length;
	__u32 flags;
};

/**
 * struct edu_state - what the driver has been told
 * @maps: how often it has taken blocks over
 * @unmaps: how often it has given them up
 * @is_mapped: whether it has some now
 * @is_revoked: whether there will be none again
 */
struct edu_state {
	__u32 maps;
	__u32 unmaps;
	__u32 is_mapped;
	__u32 is_revoked;
};

#define EDU_REGISTER	_IOW('E', 0, struct edu_register)
#define EDU_RELEASE	_IO('E', 1)
#define EDU_COPY	_IOW('E', 2, struct edu_copy)
#define EDU_STATE	_IOR('E', 3, struct edu_state)

/* What no driver may do: takes the dma_resv of that dma-buf within an access. */
#define EDU_WRONG_ORDER	_IOW('E', 4, __s32)

#endif /* _RDMA_DMABUF_EDU_UAPI_H */
