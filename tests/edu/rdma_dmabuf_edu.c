// SPDX-License-Identifier: GPL-2.0-only
/*
 * A driver for QEMU's edu device, whose DMA engine stands for that of an RDMA
 * NIC: it copies through the addresses that the importer hands out, and stops
 * before a mapping goes.
 *
 * Registers as in QEMU's docs/specs/edu.rst.
 */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/io.h>
#include <linux/iopoll.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_verbs.h>

#include "../../include/rdma_dmabuf.h"
#include "uapi.h"

#define EDU_VENDOR	0x1234
#define EDU_DEVICE	0x11e8

#define EDU_DMA_SOURCE	0x80
#define EDU_DMA_TARGET	0x88
#define EDU_DMA_COUNT	0x90
#define EDU_DMA_COMMAND	0x98
#define EDU_DMA_START	BIT(0)
#define EDU_DMA_TO_RAM	BIT(1)

/* Where the device's own buffer is for its engine. Larger transfers end QEMU. */
#define EDU_BUFFER	0x40000
#define EDU_LONGEST	2048

static int dma_bits = 64;
module_param(dma_bits, int, 0444);
MODULE_PARM_DESC(dma_bits, "Address bits of the device, 64 by default");

struct edu {
	struct pci_dev *pdev;
	void __iomem *regs;
	struct miscdevice misc;
	/* One transfer at a time. */
	struct mutex engine;
};

/* An open file: one region, and the translation table of the device for it. */
struct edu_file {
	struct edu *edu;
	/* Over @region: one call at a time. */
	struct mutex lock;
	struct rdma_dmabuf_region *region;
	u64 iova;
	u64 length;

	/* Under the engine's lock: what the device may use, and what it had. */
	u64 *blocks;
	u64 nr_blocks;
	u64 first_iova;
	unsigned int shift;
	struct edu_state state;
};

/* The table stays when it is not valid any more, for EDU_COPY_STALE. */
static int edu_map(void *priv, const struct ib_dmabuf_view *view)
{
	struct edu_file *file = priv;
	u64 *blocks;

	blocks = kvmemdup(view->blocks,
			  array_size(view->nr_blocks, sizeof(*blocks)),
			  GFP_KERNEL);
	if (!blocks)
		return -ENOMEM;
	mutex_lock(&file->edu->engine);
	kvfree(file->blocks);
	file->blocks = blocks;
	file->nr_blocks = view->nr_blocks;
	file->first_iova = view->iova;
	file->shift = view->block_shift;
	file->state.maps++;
	file->state.is_mapped = 1;
	mutex_unlock(&file->edu->engine);
	return 0;
}

/* Waits for a transfer under way, which ends by itself within 100 ms. */
static void edu_unmap(void *priv)
{
	struct edu_file *file = priv;

	mutex_lock(&file->edu->engine);
	file->state.unmaps++;
	file->state.is_mapped = 0;
	mutex_unlock(&file->edu->engine);
}

static void edu_revoked(void *priv)
{
	struct edu_file *file = priv;

	mutex_lock(&file->edu->engine);
	file->state.is_revoked = 1;
	mutex_unlock(&file->edu->engine);
}

static const struct rdma_dmabuf_driver_ops edu_ops = {
	.map = edu_map,
	.unmap = edu_unmap,
	.revoked = edu_revoked,
};

static int edu_register(struct edu_file *file,
			const struct edu_register *wish)
{
	/* The region begins with its offset within a page. */
	struct ib_dmabuf_region_attr attr = {
		.dma_device = &file->edu->pdev->dev,
		.offset = wish->offset,
		.length = wish->length,
		.iova = wish->offset,
		.block_sizes = ~0ULL << PAGE_SHIFT,
		.fd = wish->fd,
		.access = IB_ACCESS_LOCAL_WRITE,
	};
	struct rdma_dmabuf_region *region;

	if (file->region)
		return -EBUSY;
	memset(&file->state, 0, sizeof(file->state));
	region = rdma_dmabuf_get_with_ops(&attr, wish->mode, &edu_ops, file);
	if (IS_ERR(region))
		return PTR_ERR(region);
	file->region = region;
	file->iova = wish->offset;
	file->length = wish->length;
	return 0;
}

static void edu_release_region(struct edu_file *file)
{
	if (file->region)
		rdma_dmabuf_put(file->region);
	file->region = NULL;
}

/* One transfer, with the engine's lock held. */
static int edu_transfer(struct edu *edu, u64 addr, u32 length, bool to_memory)
{
	u64 command;

	writeq(to_memory ? EDU_BUFFER : addr, edu->regs + EDU_DMA_SOURCE);
	writeq(to_memory ? addr : EDU_BUFFER, edu->regs + EDU_DMA_TARGET);
	writeq(length, edu->regs + EDU_DMA_COUNT);
	writeq(EDU_DMA_START | (to_memory ? EDU_DMA_TO_RAM : 0),
	       edu->regs + EDU_DMA_COMMAND);
	return readq_poll_timeout(edu->regs + EDU_DMA_COMMAND, command,
				  !(command & EDU_DMA_START), 1000,
				  60 * USEC_PER_SEC);
}

/* -EAGAIN where the table is not valid and no stale one is wanted. */
static int edu_try_copy(struct edu_file *file, const struct edu_copy *copy)
{
	u64 iova = file->iova + copy->offset;
	int ret = -EAGAIN;

	mutex_lock(&file->edu->engine);
	if (file->state.is_mapped || (copy->flags & EDU_COPY_STALE)) {
		u64 at = iova - file->first_iova;
		u64 addr = file->blocks[at >> file->shift] +
			   (at & ((1ULL << file->shift) - 1));

		ret = edu_transfer(file->edu, addr, copy->length,
				   copy->flags & EDU_COPY_TO_MEMORY);
	}
	mutex_unlock(&file->edu->engine);
	return ret;
}

/* A device that faults: it has the region mapped and tries again. */
static int edu_copy(struct edu_file *file, const struct edu_copy *copy)
{
	u64 end;
	int ret;

	if (!file->region)
		return -ENOENT;
	if (!copy->length || copy->length > EDU_LONGEST ||
	    copy->flags & ~(EDU_COPY_TO_MEMORY | EDU_COPY_STALE) ||
	    check_add_overflow(copy->offset, copy->length, &end) ||
	    end > file->length ||
	    offset_in_page(file->iova + copy->offset) + copy->length >
		    PAGE_SIZE)
		return -EINVAL;
	do {
		ret = edu_try_copy(file, copy);
		if (ret != -EAGAIN)
			return ret;
		ret = rdma_dmabuf_map(file->region);
	} while (!ret);
	return ret;
}

/* For lockdep to see; it only deadlocks with somebody who is about to move. */
static int edu_wrong_order(struct edu_file *file, int fd)
{
	struct ib_dmabuf_view view;
	struct dma_buf *dmabuf;
	int ret;

	if (!file->region)
		return -ENOENT;
	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = rdma_dmabuf_access_begin(file->region, file->iova, 1, &view);
	if (!ret) {
		dma_resv_lock(dmabuf->resv, NULL);
		dma_resv_unlock(dmabuf->resv);
		rdma_dmabuf_access_end(file->region);
	}
	dma_buf_put(dmabuf);
	return ret;
}

static long edu_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct edu_file *file = filp->private_data;
	void __user *user = (void __user *)arg;
	struct edu_register wish;
	struct edu_state state;
	struct edu_copy copy;
	s32 fd;

	guard(mutex)(&file->lock);
	switch (cmd) {
	case EDU_REGISTER:
		if (copy_from_user(&wish, user, sizeof(wish)))
			return -EFAULT;
		return edu_register(file, &wish);
	case EDU_RELEASE:
		edu_release_region(file);
		return 0;
	case EDU_COPY:
		if (copy_from_user(&copy, user, sizeof(copy)))
			return -EFAULT;
		return edu_copy(file, &copy);
	case EDU_STATE:
		scoped_guard(mutex, &file->edu->engine)
			state = file->state;
		return copy_to_user(user, &state, sizeof(state)) ? -EFAULT : 0;
	case EDU_WRONG_ORDER:
		if (copy_from_user(&fd, user, sizeof(fd)))
			return -EFAULT;
		return edu_wrong_order(file, fd);
	default:
		return -ENOTTY;
	}
}

static int edu_open(struct inode *inode, struct file *filp)
{
	struct miscdevice *misc = filp->private_data;
	struct edu_file *file;

	file = kzalloc_obj(*file);
	if (!file)
		return -ENOMEM;
	file->edu = container_of(misc, struct edu, misc);
	mutex_init(&file->lock);
	filp->private_data = file;
	return 0;
}

static int edu_close(struct inode *inode, struct file *filp)
{
	struct edu_file *file = filp->private_data;

	edu_release_region(file);
	kvfree(file->blocks);
	mutex_destroy(&file->lock);
	kfree(file);
	return 0;
}

static const struct file_operations edu_fops = {
	.owner = THIS_MODULE,
	.open = edu_open,
	.release = edu_close,
	.unlocked_ioctl = edu_ioctl,
};

static int edu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct edu *edu;
	int ret;

	edu = devm_kzalloc(&pdev->dev, sizeof(*edu), GFP_KERNEL);
	if (!edu)
		return -ENOMEM;
	ret = pcim_enable_device(pdev);
	if (ret)
		return ret;
	edu->regs = pcim_iomap_region(pdev, 0, KBUILD_MODNAME);
	if (IS_ERR(edu->regs))
		return PTR_ERR(edu->regs);
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(dma_bits));
	if (ret)
		return dev_err_probe(&pdev->dev, ret,
				     "no DMA with %d bits: give another dma_bits=\n",
				     dma_bits);
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	pci_set_master(pdev);
	ret = devm_mutex_init(&pdev->dev, &edu->engine);
	if (ret)
		return ret;
	edu->pdev = pdev;
	edu->misc.minor = MISC_DYNAMIC_MINOR;
	edu->misc.name = KBUILD_MODNAME;
	edu->misc.fops = &edu_fops;
	pci_set_drvdata(pdev, edu);
	return misc_register(&edu->misc);
}

/* Files that are open keep the module, and so the device's driver. */
static void edu_remove(struct pci_dev *pdev)
{
	struct edu *edu = pci_get_drvdata(pdev);

	misc_deregister(&edu->misc);
	pci_clear_master(pdev);
}

static const struct pci_device_id edu_ids[] = {
	{ PCI_DEVICE(EDU_VENDOR, EDU_DEVICE) },
	{}
};
MODULE_DEVICE_TABLE(pci, edu_ids);

static struct pci_driver edu_driver = {
	.name = KBUILD_MODNAME,
	.id_table = edu_ids,
	.probe = edu_probe,
	.remove = edu_remove,
	/* An unbind by sysfs would not wait for open files. */
	.driver.suppress_bind_attrs = true,
};
module_pci_driver(edu_driver);

MODULE_AUTHOR("rdma_dmabuf maintainers");
MODULE_DESCRIPTION("QEMU's edu device as hardware behind the dma-buf importer");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("DMA_BUF");
MODULE_IMPORT_NS("RDMA_DMABUF");
