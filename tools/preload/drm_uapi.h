/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The ioctls of a DRM node that are answered. Debian has their headers in
 * libdrm-dev, which nothing else here needs.
 */
#ifndef _PRELOAD_DRM_UAPI_H
#define _PRELOAD_DRM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

struct drm_version {
	int version_major;
	int version_minor;
	int version_patchlevel;
	__kernel_size_t name_len;
	char *name;
	__kernel_size_t date_len;
	char *date;
	__kernel_size_t desc_len;
	char *desc;
};

struct drm_gem_close {
	__u32 handle;
	__u32 pad;
};

struct drm_prime_handle {
	__u32 handle;
	__u32 flags;
	__s32 fd;
};

union drm_amdgpu_gem_create {
	struct {
		__u64 bo_size;
		__u64 alignment;
		__u64 domains;
		__u64 domain_flags;
	} in;
	struct {
		__u32 handle;
		__u32 pad;
	} out;
};

union drm_amdgpu_gem_mmap {
	struct {
		__u32 handle;
		__u32 pad;
	} in;
	struct {
		__u64 addr_ptr;
	} out;
};

#define DRM_IOCTL_VERSION _IOWR('d', 0x00, struct drm_version)
#define DRM_IOCTL_GEM_CLOSE _IOW('d', 0x09, struct drm_gem_close)
#define DRM_IOCTL_PRIME_HANDLE_TO_FD _IOWR('d', 0x2d, struct drm_prime_handle)
#define DRM_IOCTL_AMDGPU_GEM_CREATE \
	_IOWR('d', 0x40, union drm_amdgpu_gem_create)
#define DRM_IOCTL_AMDGPU_GEM_MMAP _IOWR('d', 0x41, union drm_amdgpu_gem_mmap)

#endif /* _PRELOAD_DRM_UAPI_H */
