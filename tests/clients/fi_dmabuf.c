// SPDX-License-Identifier: GPL-2.0-only
/*
 * RMA and messages from dma-buf to dma-buf through libfabric.
 *
 *	fi_dmabuf server|client ADDRESS PORT udmabuf|vram [MOVES]
 *
 * Provider verbs, endpoints FI_EP_MSG. Each side registers its own dma-buf with
 * FI_MR_DMABUF; the client writes to and reads from the server's, and both send
 * a message, in rounds with other data each time. MOVES is how often a second
 * the buffer moves meanwhile. Ends with 0 only if every byte is as it must be.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "buffer.h"

/* What each area is for. */
enum area { WRITTEN, READ, SENT_BY_CLIENT, SENT_BY_SERVER };

/* What one side tells the other of its memory, as data of the connection. */
struct invitation {
	__u64 address;
	__u64 key;
};

/* An event of the connection; behind it is the data that came along. */
struct event {
	struct fi_eq_cm_entry entry;
	struct invitation invitation;
};

/* For calls that do not fail for a reason of their own. */
#define MUST(call) check(#call, call, "set FI_LOG_LEVEL=info to see why")

struct side_state {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct buffer buffer;
	struct invitation mine;
	struct invitation other;
};

static void check(const char *call, ssize_t result, const char *remedy)
{
	if (result < 0)
		fail(call, (int)-result, remedy);
}

static struct fi_info *find(const char *address, const char *port,
			    uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	if (!hints)
		fail("fi_allocinfo", ENOMEM, "make room in memory");
	hints->caps = FI_MSG | FI_RMA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR |
		FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("verbs");
	check("fi_getinfo", fi_getinfo(FI_VERSION(1, 20), address, port, flags, hints, &info),
	      "is there an RDMA device with this address?");
	fi_freeinfo(hints);
	return info;
}

static void open_fabric(struct side_state *s)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	MUST(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	MUST(fi_eq_open(s->fabric, &attr, &s->eq, NULL));
}

/* No other way to register: where dma-bufs are refused, the program ends. */
static void register_buffer(struct side_state *s)
{
	struct fi_mr_dmabuf dmabuf = {
		.fd = s->buffer.fd,
		.offset = MR_OFFSET,
		.len = MR_LENGTH,
		.base_addr = s->buffer.base,
	};
	struct fi_mr_attr attr = {
		.dmabuf = &dmabuf,
		.iov_count = 1,
		.access = FI_SEND | FI_RECV | FI_READ | FI_WRITE |
			FI_REMOTE_READ | FI_REMOTE_WRITE,
		.iface = FI_HMEM_SYSTEM,
	};

	check("fi_mr_regattr with FI_MR_DMABUF",
	      fi_mr_regattr(s->domain, &attr, FI_MR_DMABUF, &s->mr),
	      "load the importer: modprobe rdma_dmabuf; and is rxe's provider patched?");
	s->mine.key = fi_mr_key(s->mr);
	s->mine.address = s->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ?
		(uintptr_t)buffer_area(&s->buffer, 0) : 0;
	say("registered %zu bytes at %d of the dma-buf", MR_LENGTH, MR_OFFSET);
}

static void open_endpoint(struct side_state *s)
{
	struct fi_cq_attr attr = {
		.size = 16,
		.format = FI_CQ_FORMAT_MSG,
		.wait_obj = FI_WAIT_UNSPEC,
	};

	MUST(fi_domain(s->fabric, s->info, &s->domain, NULL));
	MUST(fi_cq_open(s->domain, &attr, &s->cq, NULL));
	MUST(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	MUST(fi_ep_bind(s->ep, &s->eq->fid, 0));
	MUST(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(s->ep));
	register_buffer(s);
}

/* The next event of the connection must be this one. */
static void await_event(struct side_state *s, const char *what, uint32_t wanted,
			struct event *event)
{
	struct fi_eq_err_entry error = { 0 };
	__u32 found = 0;
	ssize_t count = fi_eq_sread(s->eq, &found, event, sizeof(*event), LIMIT_MS, 0);

	if (count == -FI_EAVAIL) {
		fi_eq_readerr(s->eq, &error, 0);
		fail(what, error.err, "does the other side run, and is the network up?");
	}
	check(what, count, "does the other side run?");
	if (found != wanted)
		fail(what, EPROTO, "the connection ended before it was used");
	if (count >= (ssize_t)sizeof(*event))
		s->other = event->invitation;
}

/* Waits for the end of one operation of this kind, and no other. */
static void complete(struct side_state *s, const char *what, uint64_t kind)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_msg_entry entry;
	ssize_t count = fi_cq_sread(s->cq, &entry, 1, NULL, LIMIT_MS);

	if (count == -FI_EAVAIL) {
		fi_cq_readerr(s->cq, &error, 0);
		fail(what, error.err, "the operation failed; see the kernel's log");
	}
	check(what, count, "the other side does not answer");
	if (!(entry.flags & kind))
		fail(what, EPROTO, "another operation was completed");
	if (kind == FI_RECV && entry.len != AREA_SIZE)
		fail(what, EMSGSIZE, "the message has another length");
}

static void post_receive(struct side_state *s, enum area area)
{
	MUST(fi_recv(s->ep, buffer_area(&s->buffer, area), AREA_SIZE, fi_mr_desc(s->mr),
		     FI_ADDR_UNSPEC, NULL));
}

static void send_area(struct side_state *s, enum area area)
{
	MUST(fi_send(s->ep, buffer_area(&s->buffer, area), AREA_SIZE, fi_mr_desc(s->mr),
		     FI_ADDR_UNSPEC, NULL));
}

static uint64_t remote(const struct side_state *s, enum area area)
{
	return s->other.address + (uint64_t)area * AREA_SIZE;
}

static void client_round(struct side_state *s, unsigned int round)
{
	void *desc = fi_mr_desc(s->mr);

	buffer_fill(&s->buffer, CLIENT, WRITTEN, round);
	MUST(fi_write(s->ep, buffer_area(&s->buffer, WRITTEN), AREA_SIZE, desc,
		      FI_ADDR_UNSPEC, remote(s, WRITTEN), s->other.key, NULL));
	complete(s, "RMA write", FI_WRITE);
	say("RMA write, round %u: %d bytes", round, AREA_SIZE);

	MUST(fi_read(s->ep, buffer_area(&s->buffer, READ), AREA_SIZE, desc,
		     FI_ADDR_UNSPEC, remote(s, READ), s->other.key, NULL));
	complete(s, "RMA read", FI_READ);
	buffer_verify(&s->buffer, "RMA read", SERVER, READ, round);

	buffer_fill(&s->buffer, CLIENT, SENT_BY_CLIENT, round);
	send_area(s, SENT_BY_CLIENT);
	complete(s, "send", FI_SEND);
	say("send, round %u: %d bytes", round, AREA_SIZE);
	complete(s, "receive", FI_RECV);
	buffer_verify(&s->buffer, "receive", SERVER, SENT_BY_SERVER, round);
	if (round + 1 < ROUNDS)
		post_receive(s, SENT_BY_SERVER);
}

/* The client's message comes after its write, and the answer opens the next round. */
static void server_round(struct side_state *s, unsigned int round)
{
	complete(s, "receive", FI_RECV);
	buffer_verify(&s->buffer, "RMA write", CLIENT, WRITTEN, round);
	buffer_verify(&s->buffer, "receive", CLIENT, SENT_BY_CLIENT, round);
	if (round + 1 < ROUNDS)
		post_receive(s, SENT_BY_CLIENT);
	buffer_fill(&s->buffer, SERVER, READ, round + 1);
	buffer_fill(&s->buffer, SERVER, SENT_BY_SERVER, round);
	send_area(s, SENT_BY_SERVER);
	complete(s, "send", FI_SEND);
	say("send, round %u: %d bytes", round, AREA_SIZE);
}

static void listen_and_accept(struct side_state *s)
{
	struct fid_pep *pep;
	struct event event;

	MUST(fi_passive_ep(s->fabric, s->info, &pep, NULL));
	MUST(fi_pep_bind(pep, &s->eq->fid, 0));
	check("fi_listen", fi_listen(pep), "is the port in use?");
	say("listening");
	await_event(s, "wait for a client", FI_CONNREQ, &event);
	fi_freeinfo(s->info);
	s->info = event.entry.info;
	open_endpoint(s);
	buffer_fill(&s->buffer, SERVER, READ, 0);
	post_receive(s, SENT_BY_CLIENT);
	MUST(fi_accept(s->ep, &s->mine, sizeof(s->mine)));
	await_event(s, "accept", FI_CONNECTED, &event);
	fi_close(&pep->fid);
}

static void connect_to_server(struct side_state *s)
{
	struct event event;

	open_endpoint(s);
	post_receive(s, SENT_BY_SERVER);
	MUST(fi_connect(s->ep, s->info->dest_addr, &s->mine, sizeof(s->mine)));
	await_event(s, "connect", FI_CONNECTED, &event);
	say("connected");
}

static void close_all(struct side_state *s)
{
	MUST(fi_close(&s->ep->fid));
	MUST(fi_close(&s->mr->fid));
	MUST(fi_close(&s->cq->fid));
	MUST(fi_close(&s->domain->fid));
	MUST(fi_close(&s->eq->fid));
	MUST(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
}

int main(int argc, char **argv)
{
	bool serves = argc > 1 && !strcmp(argv[1], "server");
	unsigned int moves = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
	struct side_state s = { 0 };
	struct event event;
	unsigned int round;

	if (argc < 5 || (!serves && strcmp(argv[1], "client")))
		fail("arguments", EINVAL, "server|client ADDRESS PORT udmabuf|vram [MOVES]");
	who = serves ? "fi_dmabuf server" : "fi_dmabuf client";
	s.info = find(argv[2], argv[3], serves ? FI_SOURCE : 0);
	open_fabric(&s);
	buffer_create(&s.buffer, argv[4], moves);
	(serves ? listen_and_accept : connect_to_server)(&s);
	for (round = 0; round < ROUNDS; round++)
		(serves ? server_round : client_round)(&s, round);
	if (serves)
		await_event(&s, "end of the connection", FI_SHUTDOWN, &event);
	else
		MUST(fi_shutdown(s.ep, 0));
	close_all(&s);
	buffer_finish(&s.buffer, moves);
	return 0;
}
