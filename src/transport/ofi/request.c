// Posts operations to libfabric, and takes their completions.
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "transport/ofi/ofi.h"

static struct ofi_worker *worker_of(const struct flow_request *own) {
  return (struct ofi_worker *)own->worker;
}

// A connection by TCP may find no port (seen with libfabric 1.17 on a host that still kept thousands of connections
// that had ended): it is tried again for a moment.
static bool may_find_port(struct ofi_peer *peer) {
  if (peer->port_deadline_ns == 0)
    peer->port_deadline_ns = clock_deadline_ms(OFI_PORT_MS);
  return !clock_passed(peer->port_deadline_ns);
}

// Counts an operation that was started, or fails with how it was refused.
static int how(struct flow_request *own, struct ofi_op *op, ssize_t rc, const char *what) {
  struct ofi_peer *peer = (struct ofi_peer *)own->peer;
  peer->doubtful = rc != 0;
  if (rc == 0) {
    peer->port_deadline_ns = 0;
    op->source = worker_of(own)->source;
    op->source->running++;
    worker_of(own)->running++;
    return FLOW_STARTED;
  }
  if (rc == -FI_EAGAIN || (rc == -FI_EADDRNOTAVAIL && may_find_port(peer)))
    return FLOW_AGAIN;
  int code = ofi_fail((int)rc, "libfabric refuses %s", what);
  if (code == WEFT_ERR_PEER_LOST)
    flow_peer_failed(own->peer, code, weft_last_error());
  return code;
}

static bool full(const struct flow_request *own) {
  return worker_of(own)->running >= worker_of(own)->max_running;
}

int ofi_move(struct flow_request *own, const struct transport_piece *piece, uint64_t offset, struct flow_op *base) {
  struct ofi_op *op = (struct ofi_op *)base;
  const struct ofi_remote *remote = (const struct ofi_remote *)piece->remote;
  fi_addr_t peer = ((struct ofi_peer *)own->peer)->address;
  struct fid_ep *ep = worker_of(own)->source->ep;
  void *local = (void *)(uintptr_t)(piece->local_address + offset);
  void *desc = fi_mr_desc(((struct ofi_region *)piece->local)->mr);
  uint64_t at = piece->remote_address - remote->flow.base.address + remote->base + offset;
  if (full(own))
    return FLOW_AGAIN;
  ssize_t rc = own->request->op == WEFT_TRANSFER_WRITE
                   ? fi_write(ep, local, base->length, desc, peer, at, remote->key, &op->context.libfabric)
                   : fi_read(ep, local, base->length, desc, peer, at, remote->key, &op->context.libfabric);
  return how(own, op, rc, own->request->op == WEFT_TRANSFER_WRITE ? "a write" : "a read");
}

// Posts a read of one byte behind the writes, into a buffer of the worker.
int ofi_settle(struct flow_request *own, struct flow_op *base) {
  struct ofi_op *op = (struct ofi_op *)base;
  struct ofi_worker *worker = worker_of(own);
  const struct transport_piece *piece = &own->request->pieces[own->request->num_pieces - 1];
  const struct ofi_remote *remote = (const struct ofi_remote *)piece->remote;
  struct ofi_buffer *buffer = worker->free_sends;
  if (full(own) || !buffer)
    return FLOW_AGAIN;
  uint64_t at = piece->remote_address - remote->flow.base.address + remote->base;
  ssize_t rc = fi_read(worker->source->ep, buffer->bytes, 1, worker->slab_mr ? fi_mr_desc(worker->slab_mr) : NULL,
                       ((struct ofi_peer *)own->peer)->address, at, remote->key, &op->context.libfabric);
  int result = how(own, op, rc, "a read behind writes");
  if (result == FLOW_STARTED) {
    worker->free_sends = buffer->next;
    op->buffer = buffer;
  }
  return result;
}

// Messages are copied, if local memory has to be registered; else the caller's buffer is sent.
int ofi_send(struct flow_request *own, struct flow_op *base) {
  struct ofi_op *op = (struct ofi_op *)base;
  struct ofi_worker *worker = worker_of(own);
  const struct transport_request *request = own->request;
  struct ofi_buffer *buffer = worker->local_keys ? worker->free_sends : NULL;
  const void *bytes = request->message;
  if (full(own) || (worker->local_keys && !buffer))
    return FLOW_AGAIN;
  if (buffer)
    bytes = memcpy(buffer->bytes, request->message, request->message_size);
  ssize_t rc = fi_send(worker->source->ep, bytes, request->message_size, buffer ? fi_mr_desc(worker->slab_mr) : NULL,
                       ((struct ofi_peer *)own->peer)->address, &op->context.libfabric);
  int result = how(own, op, rc, "a message");
  if (result == FLOW_STARTED && buffer) {
    worker->free_sends = buffer->next;
    op->buffer = buffer;
  }
  return result;
}

void ofi_op_ended(struct ofi_op *op, int error, const char *why) {
  struct ofi_worker *worker = worker_of(op->flow.own);
  op->source->running--;
  op->source = NULL;
  worker->running--;
  if (op->buffer) {
    op->buffer->next = worker->free_sends;
    worker->free_sends = op->buffer;
    op->buffer = NULL;
  }
  flow_ended(&op->flow, error ? ofi_code(error) : 0, why);
}

void ofi_receive(struct ofi_worker *worker, struct ofi_buffer *buffer) {
  ssize_t rc =
      fi_recv(worker->home, buffer->bytes, TRANSPORT_MAX_MESSAGE, worker->slab_mr ? fi_mr_desc(worker->slab_mr) : NULL,
              FI_ADDR_UNSPEC, &buffer->context.libfabric);
  if (rc == 0)
    return;
  buffer->next = worker->unposted;
  worker->unposted = buffer;
}

static void received(struct ofi_worker *worker, struct ofi_buffer *buffer, size_t size) {
  const struct transport_options *options = &worker->flow.base.options;
  if (options->on_message)
    options->on_message(options->arg, buffer->bytes, size);
  ofi_receive(worker, buffer);
}

static void take_error(struct ofi_worker *worker, struct fid_cq *cq, bool closed) {
  struct fi_cq_err_entry entry = {0};
  if (fi_cq_readerr(cq, &entry, 0) != 1 || !entry.op_context)
    return;
  struct ofi_context *context = entry.op_context;
  if (context->what == OFI_PROBE)
    return;
  if (context->what == OFI_RECEIVE) {
    ofi_receive(worker, LINK_OF(context, struct ofi_buffer, context)); // the message was too long, or cut short
    return;
  }
  struct ofi_op *op = LINK_OF(context, struct ofi_op, context);
  char why[120];
  // ofi_rxm takes the text from the queue's endpoint.
  const char *more = closed ? NULL : fi_cq_strerror(cq, entry.prov_errno, entry.err_data, NULL, 0);
  snprintf(why, sizeof why, "%s (%s)", fi_strerror(entry.err), more ? more : "its endpoint was closed");
  if (ofi_code(entry.err) == WEFT_ERR_PEER_LOST && !((struct ofi_peer *)op->flow.own->peer)->cutting)
    flow_peer_failed(op->flow.own->peer, WEFT_ERR_PEER_LOST, why);
  ofi_op_ended(op, entry.err, why);
}

static uint32_t complete(struct ofi_worker *worker, struct fid_cq *cq, bool closed) {
  struct fi_cq_msg_entry entries[OFI_EVENTS];
  ssize_t count = fi_cq_read(cq, entries, OFI_EVENTS);
  for (ssize_t i = 0; i < count; i++) {
    struct ofi_context *context = entries[i].op_context;
    if (!context || context->what == OFI_PROBE)
      continue;
    if (context->what == OFI_RECEIVE)
      received(worker, LINK_OF(context, struct ofi_buffer, context), entries[i].len);
    else
      ofi_op_ended(LINK_OF(context, struct ofi_op, context), 0, NULL);
  }
  if (count == -FI_EAVAIL) {
    take_error(worker, cq, closed);
    return 1;
  }
  return count > 0 ? (uint32_t)count : 0;
}

uint32_t ofi_complete_closed(struct ofi_worker *worker, struct ofi_source *source) {
  return complete(worker, source->cq, true);
}

uint32_t ofi_complete_sources(struct ofi_worker *worker) {
  uint32_t events = complete(worker, worker->source->cq, false);
  for (struct link *link = worker->sources.next; link != &worker->sources; link = link->next)
    events += complete(worker, LINK_OF(link, struct ofi_source, sources)->cq, false);
  return events;
}

// Reading a queue costs a system call or more in providers that progress by it. So the source's queue is read while
// operations are under way there, and the other one then only every second time. Otherwise the source's queue holds at
// most the end of a connection, which can wait, except after a sleep, which it may have ended.
uint32_t ofi_complete(struct ofi_worker *worker) {
  bool busy = worker->source->running > 0 || !link_empty(&worker->flow.wanting);
  bool both = worker->armed || worker->looks % OFI_LOOKS == 0;
  uint32_t events = 0;
  worker->armed = false;
  if (both || !busy || worker->looks % 2 == 0)
    events += complete(worker, worker->cq, false);
  if (both || busy)
    events += complete(worker, worker->source->cq, false);
  worker->looks++;
  for (struct link *link = worker->sources.next; link != &worker->sources; link = link->next)
    events += complete(worker, LINK_OF(link, struct ofi_source, sources)->cq, false);
  struct ofi_buffer *unposted = worker->unposted;
  worker->unposted = NULL;
  for (struct ofi_buffer *next; unposted; unposted = next) {
    next = unposted->next;
    ofi_receive(worker, unposted);
  }
  return events;
}
