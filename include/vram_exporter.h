/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * vram_exporter: dma-bufs that lie, move, fail and are revoked on command.
 *
 * An exporter that stands in for a GPU. A program opens /dev/vram_exporter,
 * makes buffers, and says with what else it does what happens to them. All
 * commands are ioctls of that file; a buffer is named by a file descriptor of
 * its dma-buf. A buffer lives as long as its dma-buf, whatever becomes of the
 * file by which it was made; what ends with that file is said below.
 *
 * Common to all commands:
 *
 * * -ENOTTY: the number is not known, or not with this size
 * * -EFAULT: the argument cannot be read or written
 * * -EINVAL: a value is none of those that are named here, or a field with
 *   reserved in its name is not 0
 * * -EBADF: @fd is not open
 * * -EINVAL: @fd is no dma-buf, or one of another exporter
 */
#ifndef _VRAM_EXPORTER_H
#define _VRAM_EXPORTER_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * enum vram_exporter_layout - how the pages of a buffer follow each other
 * @VRAM_EXPORTER_LAYOUT_SAME: as the buffer was made; for moves only
 * @VRAM_EXPORTER_LAYOUT_ONE_RUN: in one run; in system memory in runs of 2 MiB
 * @VRAM_EXPORTER_LAYOUT_HUGE: in runs of 2 MiB at multiples of 2 MiB
 * @VRAM_EXPORTER_LAYOUT_SCATTERED: no page follows another
 * @VRAM_EXPORTER_LAYOUT_UNEVEN: in runs of 1 to 37 pages
 * @VRAM_EXPORTER_LAYOUT_MERGED: as uneven, in tables with an entry for each
 *	page and fewer DMA addresses than entries
 * @VRAM_EXPORTER_LAYOUT_SPLIT: as one run, in tables with an entry and a DMA
 *	address for each page
 * @VRAM_EXPORTER_LAYOUT_CHANGING: another of these after each move
 */
enum vram_exporter_layout {
	VRAM_EXPORTER_LAYOUT_SAME = 0,
	VRAM_EXPORTER_LAYOUT_ONE_RUN = 1,
	VRAM_EXPORTER_LAYOUT_HUGE = 2,
	VRAM_EXPORTER_LAYOUT_SCATTERED = 3,
	VRAM_EXPORTER_LAYOUT_UNEVEN = 4,
	VRAM_EXPORTER_LAYOUT_MERGED = 5,
	VRAM_EXPORTER_LAYOUT_SPLIT = 6,
	VRAM_EXPORTER_LAYOUT_CHANGING = 7,
};

/**
 * enum vram_exporter_placement - where a buffer lies
 * @VRAM_EXPORTER_PLACEMENT_SAME: where it is; for moves only
 * @VRAM_EXPORTER_PLACEMENT_VRAM: in memory that the module has reserved, as
 *	long as no importer without peer-to-peer pins or maps the buffer: that
 *	moves it to system memory first
 * @VRAM_EXPORTER_PLACEMENT_SYSTEM: in memory of the system
 */
enum vram_exporter_placement {
	VRAM_EXPORTER_PLACEMENT_SAME = 0,
	VRAM_EXPORTER_PLACEMENT_VRAM = 1,
	VRAM_EXPORTER_PLACEMENT_SYSTEM = 2,
};

/* Importers that cannot let the memory go are refused with EOPNOTSUPP. */
#define VRAM_EXPORTER_CREATE_ONLY_REVOCABLE	0x1U
/*
 * A shrinker takes the mappings of the buffer when the kernel is short of
 * memory, or told to be by a 2 written to /proc/sys/vm/drop_caches.
 */
#define VRAM_EXPORTER_CREATE_RECLAIMABLE	0x2U

/**
 * struct vram_exporter_create - make a buffer
 * @size: in bytes, a multiple of 4096; at most the module's size_limit_mb
 * @layout: one of &enum vram_exporter_layout
 * @placement: one of &enum vram_exporter_placement
 * @open_flags: O_RDONLY, O_WRONLY or O_RDWR, with or without O_CLOEXEC
 * @flags: any of VRAM_EXPORTER_CREATE_ONLY_REVOCABLE and
 *	VRAM_EXPORTER_CREATE_RECLAIMABLE
 * @reserved: 0
 *
 * The buffer is filled with zeroes. The file descriptor of its dma-buf is what
 * the ioctl returns. -ENOSPC if there is not enough video memory, or none of
 * that layout; -ENOMEM if there is no system memory.
 */
struct vram_exporter_create {
	__u64 size;
	__u32 layout;
	__u32 placement;
	__u32 open_flags;
	__u32 flags;
	__u64 reserved[2];
};

/**
 * struct vram_exporter_buffer - a command that needs no more than a buffer
 * @fd: the buffer
 * @reserved: 0
 */
struct vram_exporter_buffer {
	__s32 fd;
	__u32 reserved[3];
};

/**
 * struct vram_exporter_move - move a buffer, once
 * @fd: the buffer
 * @placement: one of &enum vram_exporter_placement
 * @layout: one of &enum vram_exporter_layout, for this time alone
 * @fence_ms: if not 0, a KERNEL fence says for so many milliseconds that the
 *	content is not in place; at most 60000
 * @reserved: 0
 *
 * The old memory is overwritten. -EBUSY if the buffer is pinned or mapped by
 * the kernel, -ENODEV if it is revoked, -ENOSPC or -ENOMEM without a place.
 */
struct vram_exporter_move {
	__s32 fd;
	__u32 placement;
	__u32 layout;
	__u32 fence_ms;
	__u64 reserved[2];
};

/**
 * struct vram_exporter_pair - a command about two buffers
 * @fd: the one
 * @other: the other
 * @reserved: 0
 *
 * VRAM_EXPORTER_IOC_MOVE_BOTH moves both while it holds both locks, which it
 * takes in any order, by the rules of wound/wait mutexes. Errors as those of a
 * move; -EALREADY if both are the same. If the second cannot be moved, the
 * first was nevertheless.
 */
struct vram_exporter_pair {
	__s32 fd;
	__s32 other;
	__u64 reserved;
};

/**
 * struct vram_exporter_loop - move a buffer again and again
 * @fd: the buffer
 * @per_second: how often, at most 10000; 0 ends it
 * @placement: one of &enum vram_exporter_placement, for each move
 * @reserved: 0
 *
 * There is one loop for a buffer and a file; the file's end with it. A move
 * that is not possible is left out.
 */
struct vram_exporter_loop {
	__s32 fd;
	__u32 per_second;
	__u32 placement;
	__u32 reserved;
};

/**
 * struct vram_exporter_revoke - take a buffer away
 * @fd: the buffer
 * @timeout_ms: how long to wait, for the fences of the buffer and then for the
 *	last mapping to go; at most 10000
 * @reserved: 0
 *
 * From now on attach, pin and map answer ENODEV, and user space gets SIGBUS.
 * -ETIMEDOUT if importers have not let go in time, -EINTR on a signal; the
 * buffer is revoked nevertheless.
 */
struct vram_exporter_revoke {
	__s32 fd;
	__u32 timeout_ms;
	__u64 reserved;
};

/**
 * struct vram_exporter_pin_quota - limit the pins of a buffer
 * @fd: the buffer
 * @pins: how many there may be at a time; pin answers ENOSPC beyond that
 * @reserved: 0
 *
 * Without a limit at first. Pins that are there stay.
 */
struct vram_exporter_pin_quota {
	__s32 fd;
	__u32 pins;
	__u64 reserved;
};

/* A fence that signals with VRAM_EXPORTER_IOC_SIGNAL, or when the buffer goes. */
#define VRAM_EXPORTER_NEVER	0xffffffffU

/**
 * enum vram_exporter_usage - what a fence stands for, as enum dma_resv_usage
 * @VRAM_EXPORTER_USAGE_KERNEL: the content is not in place before
 * @VRAM_EXPORTER_USAGE_WRITE: somebody writes
 * @VRAM_EXPORTER_USAGE_READ: somebody reads
 * @VRAM_EXPORTER_USAGE_BOOKKEEP: somebody has the memory in use
 */
enum vram_exporter_usage {
	VRAM_EXPORTER_USAGE_KERNEL = 0,
	VRAM_EXPORTER_USAGE_WRITE = 1,
	VRAM_EXPORTER_USAGE_READ = 2,
	VRAM_EXPORTER_USAGE_BOOKKEEP = 3,
};

/**
 * struct vram_exporter_fence - add a fence to a buffer
 * @fd: the buffer
 * @usage: one of &enum vram_exporter_usage
 * @after_ms: when it signals, at most 60000, or VRAM_EXPORTER_NEVER
 * @error: 0, or the errno that it signals with, from 1 to 4095; 0 for one
 *	that never does
 * @reserved: 0
 *
 * At most 64 fences of a buffer at a time, else -EBUSY; VRAM_EXPORTER_IOC_SIGNAL
 * ends all of them.
 */
struct vram_exporter_fence {
	__s32 fd;
	__u32 usage;
	__u32 after_ms;
	__u32 error;
	__u64 reserved[2];
};

/**
 * enum vram_exporter_op - an operation of an importer
 * @VRAM_EXPORTER_OP_ATTACH: attach
 * @VRAM_EXPORTER_OP_PIN: pin
 * @VRAM_EXPORTER_OP_MAP: map
 * @VRAM_EXPORTER_OP_UNMAP: unmap
 */
enum vram_exporter_op {
	VRAM_EXPORTER_OP_ATTACH = 1,
	VRAM_EXPORTER_OP_PIN = 2,
	VRAM_EXPORTER_OP_MAP = 3,
	VRAM_EXPORTER_OP_UNMAP = 4,
};

/**
 * enum vram_exporter_action - what an operation does wrong
 * @VRAM_EXPORTER_ACTION_CLEAR: nothing any more, whatever was ordered
 * @VRAM_EXPORTER_ACTION_FAIL: it fails; not for unmap
 * @VRAM_EXPORTER_ACTION_INVALIDATE: it tells importers that their mappings go
 *	stale, in its own task and before anything else
 * @VRAM_EXPORTER_ACTION_NO_P2P: it takes peer-to-peer from the importer; for
 *	attach, as all below are for map
 * @VRAM_EXPORTER_ACTION_NULL: it answers neither a table nor an error
 * @VRAM_EXPORTER_ACTION_SHORT: a page is missing at the end of the table
 * @VRAM_EXPORTER_ACTION_EMPTY: the table has no entries
 * @VRAM_EXPORTER_ACTION_OVER_LONG: the table has a page more than the buffer
 * @VRAM_EXPORTER_ACTION_UNALIGNED: an address is no multiple of a page
 * @VRAM_EXPORTER_ACTION_ZERO_LENGTH: there are entries of no length
 * @VRAM_EXPORTER_ACTION_HUGE: an entry has almost 4 GiB; nothing is there
 * @VRAM_EXPORTER_ACTION_IO: the addresses are none of RAM
 * @VRAM_EXPORTER_ACTION_EVICT: nothing wrong; another buffer is moved first,
 *	unless that is in use, or has to stay where it is
 */
enum vram_exporter_action {
	VRAM_EXPORTER_ACTION_CLEAR = 0,
	VRAM_EXPORTER_ACTION_FAIL = 1,
	VRAM_EXPORTER_ACTION_INVALIDATE = 2,
	VRAM_EXPORTER_ACTION_NO_P2P = 3,
	VRAM_EXPORTER_ACTION_NULL = 4,
	VRAM_EXPORTER_ACTION_SHORT = 5,
	VRAM_EXPORTER_ACTION_EMPTY = 6,
	VRAM_EXPORTER_ACTION_OVER_LONG = 7,
	VRAM_EXPORTER_ACTION_UNALIGNED = 8,
	VRAM_EXPORTER_ACTION_ZERO_LENGTH = 9,
	VRAM_EXPORTER_ACTION_HUGE = 10,
	VRAM_EXPORTER_ACTION_IO = 11,
	VRAM_EXPORTER_ACTION_EVICT = 12,
};

/**
 * struct vram_exporter_fault - order a fault
 * @fd: the buffer
 * @op: one of &enum vram_exporter_op; ignored to clear
 * @action: one of &enum vram_exporter_action that the operation can do
 * @every: 0 for the next operation alone, else for every so many
 * @error: the errno to fail with, from 1 to 4095; 0 unless it is to fail
 * @other: the buffer to evict; 0 unless one is to be
 * @reserved: 0
 *
 * At most 16 orders at a time, else -EBUSY.
 */
struct vram_exporter_fault {
	__s32 fd;
	__u32 op;
	__u32 action;
	__u32 every;
	__u32 error;
	__s32 other;
	__u32 reserved[2];
};

/**
 * struct vram_exporter_stats - what was done to a buffer, and what it is like
 * @fd: the buffer
 * @placement: where it is, one of &enum vram_exporter_placement
 * @is_revoked: 1 if it is revoked
 * @pinned: how many pins there are
 * @mapped: how many tables are mapped
 * @reserved32: 0
 * @attaches: attachments made
 * @detaches: attachments given up
 * @maps: tables handed out
 * @unmaps: tables given back
 * @pins: pins made
 * @unpins: pins given up
 * @vmaps: kernel mappings made
 * @vunmaps: kernel mappings given up
 * @cpu_begins: accesses of the CPU begun
 * @cpu_ends: accesses of the CPU ended
 * @invalidations: how often importers were told that mappings go stale
 * @moves: how often the buffer was moved
 * @breaches: how often an importer broke the contract; the log says how
 * @late_writes: pieces of memory that somebody wrote to after they were taken
 *	away from the buffer
 * @guard_writes: pieces of memory behind which somebody wrote, as far as they
 *	are given up
 * @vram_late_writes: the same as late_writes, after the memory was given up by
 *	whatever buffer had it
 * @reserved: 0
 *
 * All but @fd is written by the kernel, and has to be 0 before.
 */
struct vram_exporter_stats {
	__s32 fd;
	__u32 placement;
	__u32 is_revoked;
	__u32 pinned;
	__u32 mapped;
	__u32 reserved32;
	__u64 attaches;
	__u64 detaches;
	__u64 maps;
	__u64 unmaps;
	__u64 pins;
	__u64 unpins;
	__u64 vmaps;
	__u64 vunmaps;
	__u64 cpu_begins;
	__u64 cpu_ends;
	__u64 invalidations;
	__u64 moves;
	__u64 breaches;
	__u64 late_writes;
	__u64 guard_writes;
	__u64 vram_late_writes;
	__u64 reserved[2];
};

/**
 * struct vram_exporter_copy - read or write a buffer as the exporter sees it
 * @fd: the buffer
 * @reserved32: 0
 * @offset: in the buffer, in bytes
 * @length: in bytes
 * @address: of as many bytes in user space
 * @reserved: 0
 *
 * Works while the buffer is revoked, and whatever its file was opened for.
 * -EINVAL if the range ends beyond the buffer.
 */
struct vram_exporter_copy {
	__s32 fd;
	__u32 reserved32;
	__u64 offset;
	__u64 length;
	__u64 address;
	__u64 reserved;
};

#define VRAM_EXPORTER_IOC_MAGIC	'V'

/* Returns a file descriptor. */
#define VRAM_EXPORTER_IOC_CREATE \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe0, struct vram_exporter_create)
#define VRAM_EXPORTER_IOC_MOVE \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe1, struct vram_exporter_move)
#define VRAM_EXPORTER_IOC_LOOP \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe2, struct vram_exporter_loop)
#define VRAM_EXPORTER_IOC_REVOKE \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe3, struct vram_exporter_revoke)
/* Gives a buffer back that was revoked, and tells the importers. */
#define VRAM_EXPORTER_IOC_UNREVOKE \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe4, struct vram_exporter_buffer)
#define VRAM_EXPORTER_IOC_PIN_QUOTA \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe5, struct vram_exporter_pin_quota)
#define VRAM_EXPORTER_IOC_FENCE \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe6, struct vram_exporter_fence)
/* Signals all fences that were added by VRAM_EXPORTER_IOC_FENCE. */
#define VRAM_EXPORTER_IOC_SIGNAL \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe7, struct vram_exporter_buffer)
#define VRAM_EXPORTER_IOC_FAULT \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xe8, struct vram_exporter_fault)
#define VRAM_EXPORTER_IOC_STATS \
	_IOWR(VRAM_EXPORTER_IOC_MAGIC, 0xe9, struct vram_exporter_stats)
#define VRAM_EXPORTER_IOC_READ \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xea, struct vram_exporter_copy)
#define VRAM_EXPORTER_IOC_WRITE \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xeb, struct vram_exporter_copy)
/* Tells the importers that their mappings go stale, without a reason. */
#define VRAM_EXPORTER_IOC_INVALIDATE \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xec, struct vram_exporter_buffer)
/*
 * The same in the state of a task that reclaims memory; -EBUSY if the
 * reservation lock is taken.
 */
#define VRAM_EXPORTER_IOC_SHRINK \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xed, struct vram_exporter_buffer)
#define VRAM_EXPORTER_IOC_MOVE_BOTH \
	_IOW(VRAM_EXPORTER_IOC_MAGIC, 0xee, struct vram_exporter_pair)

#endif /* _VRAM_EXPORTER_H */
