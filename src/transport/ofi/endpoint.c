// The objects of libfabric that a worker has.
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text/settings.h"
#include "transport/ofi/ofi.h"

enum { QUEUE = 4096, SLOT = (TRANSPORT_MAX_MESSAGE + 63) / 64 * 64, SLAB = (OFI_RECEIVES + OFI_SENDS) * SLOT };

static void close_fid(struct fid *fid) {
  if (fid)
    fi_close(fid);
}
#define CLOSE(object) close_fid((object) ? &(object)->fid : NULL)

// Adds the queue's descriptor, if it has one, to the worker's epoll set.
static bool watch(struct ofi_worker *worker, struct fid_cq *cq) {
  int fd = -1;
  struct epoll_event event = {.events = EPOLLIN};
  return fi_control(&cq->fid, FI_GETWAIT, &fd) == 0 && epoll_ctl(worker->fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static int open_queue(struct ofi_worker *worker, struct fid_cq **cq) {
  bool wait = worker->fd >= 0;
  struct fi_cq_attr attr = {
      .size = QUEUE,
      .format = FI_CQ_FORMAT_MSG,
      .wait_obj = wait ? FI_WAIT_FD : FI_WAIT_NONE,
  };
  int rc = fi_cq_open(worker->domain, &attr, cq, worker);
  if (rc == 0 && wait && !watch(worker, *cq)) {
    fi_close(&(*cq)->fid);
    *cq = NULL;
    rc = -FI_ENOSYS;
  }
  if (rc == 0)
    worker->max_running = (uint32_t)(attr.size ? attr.size : QUEUE) - OFI_RECEIVES;
  return rc;
}

// Opens the first queue; without a descriptor if libfabric has none.
static int open_first_queue(struct ofi_worker *worker, bool wait) {
  worker->fd = wait ? epoll_create1(EPOLL_CLOEXEC) : -1;
  int rc = open_queue(worker, &worker->cq);
  if (rc != 0 && worker->fd >= 0) { // no descriptor that wakes: poll
    close(worker->fd);
    worker->fd = -1;
    rc = open_queue(worker, &worker->cq);
  }
  return rc;
}

static int open_domain(struct ofi_worker *worker, bool wait) {
  int rc = fi_fabric(worker->info->fabric_attr, &worker->fabric, worker);
  if (rc != 0)
    return ofi_fail(rc, "libfabric opens no fabric %s", worker->info->fabric_attr->name);
  rc = fi_domain(worker->fabric, worker->info, &worker->domain, worker);
  if (rc != 0)
    return ofi_fail(rc, "libfabric opens no domain %s", worker->info->domain_attr->name);
  struct fi_av_attr attr = {.type = FI_AV_TABLE};
  rc = fi_av_open(worker->domain, &attr, &worker->av, worker);
  if (rc != 0)
    return ofi_fail(rc, "libfabric makes no table of addresses");
  rc = open_first_queue(worker, wait);
  return rc ? ofi_fail(rc, "libfabric makes no completion queue") : 0;
}

static int open_endpoint(struct ofi_worker *worker, struct fid_cq *cq, struct fid_ep **ep) {
  struct fid_ep *made;
  int rc = fi_endpoint(worker->domain, worker->info, &made, worker);
  if (rc != 0)
    return ofi_fail(rc, "libfabric makes no endpoint");
  rc = fi_ep_bind(made, &worker->av->fid, 0);
  if (rc == 0)
    rc = fi_ep_bind(made, &cq->fid, FI_TRANSMIT | FI_RECV);
  if (rc == 0)
    rc = fi_enable(made);
  if (rc != 0) {
    fi_close(&made->fid);
    return ofi_fail(rc, "libfabric starts no endpoint");
  }
  *ep = made;
  return 0;
}

int ofi_source_open(struct ofi_worker *worker, struct ofi_source **made) {
  struct ofi_source *source = calloc(1, sizeof *source);
  if (!source)
    return fail(WEFT_ERR_NOMEM, "no memory for an endpoint");
  link_init(&source->sources);
  int rc = open_queue(worker, &source->cq);
  rc = rc ? ofi_fail(rc, "libfabric makes no completion queue") : open_endpoint(worker, source->cq, &source->ep);
  if (rc != 0)
    ofi_source_close(source);
  else
    *made = source;
  return rc;
}

void ofi_source_close(struct ofi_source *source) {
  if (!source)
    return;
  CLOSE(source->ep);
  CLOSE(source->cq);
  link_remove(&source->sources);
  free(source);
}

int ofi_trywait(struct ofi_worker *worker) {
  struct fid *fids[] = {&worker->cq->fid, &worker->source->cq->fid};
  return fi_trywait(worker->fabric, fids, 2);
}

static int fill_slab(struct ofi_worker *worker) {
  worker->slab = aligned_alloc(4096, (SLAB + 4095) / 4096 * 4096);
  if (!worker->slab)
    return fail(WEFT_ERR_NOMEM, "no memory for messages");
  memset(worker->slab, 0, SLAB);
  if (worker->local_keys) {
    struct transport_memory memory = {.address = worker->slab, .length = SLAB};
    int rc = ofi_register(worker, &memory, FI_SEND | FI_RECV, &worker->slab_mr);
    if (rc != 0)
      return rc;
  }
  for (uint32_t i = 0; i < OFI_SENDS; i++) {
    worker->sends[i] = (struct ofi_buffer){.next = worker->free_sends, .bytes = worker->slab + i * SLOT};
    worker->free_sends = &worker->sends[i];
  }
  worker->probe.what = OFI_PROBE;
  for (uint32_t i = 0; i < OFI_RECEIVES; i++) {
    worker->receives[i] = (struct ofi_buffer){.bytes = worker->slab + (OFI_SENDS + i) * SLOT};
    worker->receives[i].context.what = OFI_RECEIVE;
    ofi_receive(worker, &worker->receives[i]);
  }
  return 0;
}

int ofi_open(struct ofi_worker *worker, const struct transport_options *options) {
  const char *wait = settings_value(options->settings, "wait");
  int rc = ofi_choose(options, &worker->info);
  if (rc != 0)
    return rc;
  worker->local_keys = worker->info->domain_attr->mr_mode & FI_MR_LOCAL;
  flow_host(&worker->host, &worker->net);
  rc = open_domain(worker, !(wait && strcmp(wait, "none") == 0));
  if (rc == 0)
    rc = open_endpoint(worker, worker->cq, &worker->home);
  if (rc == 0)
    rc = ofi_source_open(worker, &worker->source);
  return rc ? rc : fill_slab(worker);
}

void ofi_close(struct ofi_worker *worker) {
  for (struct link *link = worker->flow.peers.next; link != &worker->flow.peers; link = link->next)
    ofi_break(worker, (struct ofi_peer *)LINK_OF(link, struct flow_peer, peers));
  ofi_source_close(worker->source);
  while (!link_empty(&worker->sources))
    ofi_source_close(LINK_OF(worker->sources.next, struct ofi_source, sources));
  CLOSE(worker->home);
  worker->source = NULL;
  worker->home = NULL;
  flow_end(&worker->flow); // nothing touches memory any more
  while (!link_empty(&worker->flow.regions))
    ofi_unreg(&LINK_OF(worker->flow.regions.next, struct flow_region, regions)->base);
  CLOSE(worker->slab_mr);
  CLOSE(worker->cq);
  CLOSE(worker->av);
  CLOSE(worker->domain);
  CLOSE(worker->fabric);
  if (worker->fd >= 0)
    close(worker->fd);
  free(worker->slab);
  if (worker->info)
    fi_freeinfo(worker->info);
  free(worker);
}
