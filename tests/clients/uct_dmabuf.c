// SPDX-License-Identifier: GPL-2.0-only
/*
 * Puts and gets from dma-buf to dma-buf through UCX's transport layer.
 *
 *	uct_dmabuf server|client DEVICE ADDRESS PORT udmabuf|vram [MOVES]
 *
 * Component ib, transport rc_verbs. Each side registers its own dma-buf by
 * its fd, and the client gets the key; it puts into and gets from the
 * server's memory. All of it in rounds, with other data each time. MOVES is
 * how often a second the buffer moves meanwhile. ADDRESS and PORT are those
 * of a TCP connection for all that is not RDMA. Ends with 0 only if every
 * byte is as it must be.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#include "buffer.h"
#include "line.h"
#include "uct_v2.h"

#define TRANSPORT	"rc_verbs"
#define ROOM		64

/* What each area is for; the other two are not. */
enum area { PUT_INTO, GOT_FROM };

/* What one side tells the other of itself and its memory. */
struct invitation {
	__u8 device[ROOM];
	__u8 endpoint[ROOM];
	__u8 rkey[ROOM];
	__u64 address;
};

struct side_state {
	const char *device;
	uct_component_h component;
	uct_md_h md;
	uct_md_attr_t md_attr;
	ucs_async_context_t *async;
	uct_worker_h worker;
	uct_iface_h iface;
	uct_ep_h ep;
	uct_mem_h memory;
	uct_rkey_bundle_t rkey;
	struct buffer buffer;
	struct invitation other;
	int line;
};

static void check(const char *call, ucs_status_t status, const char *remedy)
{
	if (status != UCS_OK)
		fail_because(call, ucs_status_string(status), remedy);
}

/* For calls that do not fail for a reason of their own. */
#define MUST(call) check(#call, call, "set UCX_LOG_LEVEL=debug to see why")

/* The component of RDMA devices. */
static uct_component_h find_component(void)
{
	uct_component_attr_t attr = { .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME };
	uct_component_h *all, found = NULL;
	unsigned int count, i;

	MUST(uct_query_components(&all, &count));
	for (i = 0; i < count && !found; i++) {
		MUST(uct_component_query(all[i], &attr));
		if (!strcmp(attr.name, "ib"))
			found = all[i];
	}
	uct_release_component_list(all);
	if (!found)
		fail("uct_query_components: ib", ENODEV, "install UCX with its ib module");
	return found;
}

static void open_domain(struct side_state *s)
{
	uct_md_config_t *config;

	s->component = find_component();
	MUST(uct_md_config_read(s->component, NULL, NULL, &config));
	check("uct_md_open", uct_md_open(s->component, s->device, config, &s->md),
	      "is there an RDMA device of this name?");
	uct_config_release(config);
	MUST(uct_md_query(s->md, &s->md_attr));
	if (!(s->md_attr.cap.flags & UCT_MD_FLAG_REG_DMABUF))
		fail("UCT_MD_FLAG_REG_DMABUF", EOPNOTSUPP,
		     "load the importer: modprobe rdma_dmabuf; and is rxe's provider patched?");
	say("%s has UCT_MD_FLAG_REG_DMABUF", s->device);
}

/* No other way to register: where dma-bufs are refused, the program ends. */
static void register_buffer(struct side_state *s)
{
	struct uct_md_mem_reg_params params = {
		.field_mask = REG_FIELD_FLAGS | REG_FIELD_DMABUF_FD | REG_FIELD_DMABUF_OFFSET,
		.flags = UCT_MD_MEM_ACCESS_RMA,
		.dmabuf_fd = s->buffer.fd,
		.dmabuf_offset = MR_OFFSET,
	};

	check("uct_md_mem_reg_v2 with a dma-buf",
	      uct_md_mem_reg_v2(s->md, buffer_area(&s->buffer, 0), MR_LENGTH, &params, &s->memory),
	      "load the importer: modprobe rdma_dmabuf; and is rxe's provider patched?");
	say("registered %zu bytes at %d of the dma-buf", MR_LENGTH, MR_OFFSET);
}

static void open_interface(struct side_state *s)
{
	char device[ROOM];
	uct_iface_params_t params = {
		.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE,
		.open_mode = UCT_IFACE_OPEN_MODE_DEVICE,
		.mode.device = { .tl_name = TRANSPORT, .dev_name = device },
	};
	uct_iface_config_t *config;

	snprintf(device, sizeof(device), "%s:1", s->device);
	MUST(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &s->async));
	MUST(uct_worker_create(s->async, UCS_THREAD_MODE_SINGLE, &s->worker));
	MUST(uct_md_iface_config_read(s->md, TRANSPORT, NULL, NULL, &config));
	check("uct_iface_open", uct_iface_open(s->md, s->worker, &params, config, &s->iface),
	      "is the device's network interface up, with an address?");
	uct_config_release(config);
	uct_iface_progress_enable(s->iface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

static void check_room(const struct side_state *s, const uct_iface_attr_t *attr)
{
	if (attr->device_addr_len > ROOM || attr->ep_addr_len > ROOM ||
	    s->md_attr.rkey_packed_size > ROOM)
		fail("addresses and keys", ENOSPC, "raise ROOM");
	if (attr->cap.put.max_zcopy < AREA_SIZE || attr->cap.get.max_zcopy < AREA_SIZE)
		fail("uct_iface_query", EMSGSIZE, "make AREA_SIZE smaller");
}

/* Tells the other side all it needs, and connects to it. */
static void connect_sides(struct side_state *s)
{
	uct_ep_params_t params = { .field_mask = UCT_EP_PARAM_FIELD_IFACE, .iface = s->iface };
	struct invitation mine = { .address = (uintptr_t)buffer_area(&s->buffer, 0) };
	uct_iface_attr_t attr;

	MUST(uct_iface_query(s->iface, &attr));
	check_room(s, &attr);
	MUST(uct_ep_create(&params, &s->ep));
	MUST(uct_iface_get_device_address(s->iface, (uct_device_addr_t *)mine.device));
	MUST(uct_ep_get_address(s->ep, (uct_ep_addr_t *)mine.endpoint));
	MUST(uct_md_mkey_pack(s->md, s->memory, mine.rkey));
	line_exchange(s->line, &mine, &s->other, sizeof(mine));
	MUST(uct_rkey_unpack(s->component, s->other.rkey, &s->rkey));
	say("packed and unpacked keys of %zu bytes", s->md_attr.rkey_packed_size);
	MUST(uct_ep_connect_to_ep(s->ep, (uct_device_addr_t *)s->other.device,
				  (uct_ep_addr_t *)s->other.endpoint));
	line_meet(s->line);
	say("connected");
}

static void completed(uct_completion_t *self)
{
	(void)self;
}

/* Puts or gets one area and waits until the other side has acknowledged it. */
static void transfer(struct side_state *s, bool puts, enum area area)
{
	uct_iov_t iov = {
		.buffer = buffer_area(&s->buffer, area),
		.length = AREA_SIZE,
		.memh = s->memory,
		.count = 1,
	};
	uct_completion_t completion = { .func = completed, .count = 1, .status = UCS_OK };
	__u64 address = s->other.address + (__u64)area * AREA_SIZE;
	time_t end = time(NULL) + LIMIT_MS / 1000;
	ucs_status_t status;

	do {
		status = (puts ? uct_ep_put_zcopy : uct_ep_get_zcopy)(s->ep, &iov, 1, address,
								      s->rkey.rkey, &completion);
		uct_worker_progress(s->worker);
	} while (status == UCS_ERR_NO_RESOURCE && time(NULL) < end);
	if (status == UCS_INPROGRESS) {
		while (completion.count && time(NULL) < end)
			uct_worker_progress(s->worker);
		status = completion.count ? UCS_ERR_TIMED_OUT : completion.status;
	}
	check(puts ? "put" : "get", status, "see the kernel's log, and what the other side says");
}

static void client_round(struct side_state *s, unsigned int round)
{
	buffer_fill(&s->buffer, CLIENT, PUT_INTO, round);
	transfer(s, true, PUT_INTO);
	say("put, round %u: %d bytes", round, AREA_SIZE);
	transfer(s, false, GOT_FROM);
	buffer_verify(&s->buffer, "get", SERVER, GOT_FROM, round);
	line_meet(s->line);
	line_meet(s->line);
}

/* Looks at what came between two rounds of the client. */
static void server_round(struct side_state *s, unsigned int round)
{
	line_meet(s->line);
	buffer_verify(&s->buffer, "put", CLIENT, PUT_INTO, round);
	buffer_fill(&s->buffer, SERVER, GOT_FROM, round + 1);
	line_meet(s->line);
}

static void close_all(struct side_state *s)
{
	uct_ep_destroy(s->ep);
	MUST(uct_rkey_release(s->component, &s->rkey));
	MUST(uct_md_mem_dereg(s->md, s->memory));
	uct_iface_close(s->iface);
	uct_worker_destroy(s->worker);
	ucs_async_context_destroy(s->async);
	uct_md_close(s->md);
}

int main(int argc, char **argv)
{
	bool serves = argc > 1 && !strcmp(argv[1], "server");
	unsigned int moves = argc > 6 ? strtoul(argv[6], NULL, 10) : 0;
	struct side_state s = { 0 };
	unsigned int round;

	if (argc < 6 || (!serves && strcmp(argv[1], "client")))
		fail("arguments", EINVAL,
		     "server|client DEVICE ADDRESS PORT udmabuf|vram [MOVES]");
	who = serves ? "uct_dmabuf server" : "uct_dmabuf client";
	s.device = argv[2];
	open_domain(&s);
	buffer_create(&s.buffer, argv[5], moves);
	register_buffer(&s);
	open_interface(&s);
	if (serves)
		buffer_fill(&s.buffer, SERVER, GOT_FROM, 0);
	s.line = line_open(serves, argv[3], argv[4]);
	connect_sides(&s);
	for (round = 0; round < ROUNDS; round++) {
		if (serves)
			server_round(&s, round);
		else
			client_round(&s, round);
	}
	close_all(&s);
	buffer_finish(&s.buffer, moves);
	return 0;
}
