// Workers of the transport ofi: opening, progress and closing.
#include "transport/ofi/ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/settings.h"
#include "base/time/clock.h"

static int probe(char *why, size_t cap) {
  struct transport_options options = {.size = sizeof options};
  struct fi_info *info;
  int rc = ofi_choose(&options, &info);
  if (rc != 0)
    snprintf(why, cap, "%s", weft_last_error());
  else
    fi_freeinfo(info);
  return rc ? WEFT_ERR_UNSUPPORTED : 0;
}

static void describe(struct ofi_worker *worker) {
  const struct fi_info *info = worker->info;
  struct transport_abilities *abilities = &worker->flow.base.abilities;
  if (!(info->caps & FI_HMEM)) {
    abilities->local_kinds = abilities->remote_kinds = 1u << WEFT_MEMORY_HOST;
    snprintf(worker->flow.base.lacks, sizeof worker->flow.base.lacks,
             "libfabric's provider %s moves host memory only; the transport ucx copies a GPU's through the host",
             info->fabric_attr->prov_name);
  }
  uint64_t most = info->ep_attr->max_msg_size;
  worker->flow.wire = (struct flow_wire){
      .op_size = (sizeof(struct ofi_op) + 15) / 16 * 16,
      .settled_when_moved = info->tx_attr->op_flags & FI_DELIVERY_COMPLETE,
      .max_operation = most < FLOW_CHUNK ? most : FLOW_CHUNK,
      .connects = true,
      .lost_ms = FLOW_GRACE_MS,
      .move = ofi_move,
      .settle = ofi_settle,
      .send = ofi_send,
      .sever = ofi_sever,
      .part = ofi_part,
      .free_remote = ofi_free_remote,
  };
}

static int open_worker(const struct transport_options *options, struct transport_worker **made) {
  static const char *const names[] = {"provider", "complete", "wait", "nics", NULL};
  const struct settings_number none = {.name = NULL};
  if (settings_read(options->settings, "ofi, apart from libfabric's FI_* in the environment,", &none, names) != 0)
    return WEFT_ERR_INVALID;
  struct ofi_worker *worker = calloc(1, sizeof *worker);
  if (!worker)
    return fail(WEFT_ERR_NOMEM, "no memory for a worker");
  flow_worker_init(&worker->flow, &transport_ofi, options);
  link_init(&worker->sources);
  worker->fd = -1;
  int rc = ofi_open(worker, options);
  if (rc != 0) {
    ofi_close(worker);
    return rc;
  }
  describe(worker);
  *made = &worker->flow.base;
  return 0;
}

static uint32_t progress(struct transport_worker *base) {
  struct ofi_worker *worker = (struct ofi_worker *)base;
  uint32_t events = ofi_complete(worker);
  events += flow_progress(&worker->flow);
  if (!link_empty(&worker->sources))
    ofi_leave_sources(worker);
  return events;
}

// Waits for a short time until the operations under way are complete; then closes the endpoints.
static void close_worker(struct transport_worker *base) {
  struct ofi_worker *worker = (struct ofi_worker *)base;
  uint64_t deadline = clock_deadline_ms(FLOW_CLOSE_MS / 10);
  flow_stop(&worker->flow);
  while (!flow_idle(&worker->flow) && !clock_passed(deadline))
    progress(base);
  ofi_close(worker);
}

static int worker_fd(struct transport_worker *base) {
  return ((struct ofi_worker *)base)->fd;
}

static int arm(struct transport_worker *base) {
  struct ofi_worker *worker = (struct ofi_worker *)base;
  if (flow_busy(&worker->flow) || worker->unposted || !link_empty(&worker->sources))
    return WEFT_ERR_BUSY;
  int rc = worker->fd >= 0 ? ofi_trywait(worker) : 0;
  worker->armed = true;
  if (rc == -FI_EAGAIN)
    return WEFT_ERR_BUSY;
  return rc == 0 ? 0 : ofi_fail(rc, "libfabric cannot arm its descriptor");
}

// All peers are reached by the worker's one domain, whose name is that of a NIC or an interface.
static void uses(struct transport_worker *base, const struct transport_peer *peer, char *text, size_t cap) {
  const struct fi_info *info = ((const struct ofi_worker *)base)->info;
  const char *domain = info->domain_attr->name;
  (void)peer;
  snprintf(text, cap, "%s%s%s", info->fabric_attr->prov_name, domain ? " " : "", domain ? domain : "");
}

// The cost by the NIC's speed if the provider reports it; otherwise values measured with TCP and shared memory.
static void cost(struct transport_worker *base, const struct transport_peer *peer, struct transport_cost *cost) {
  const struct ofi_worker *worker = (const struct ofi_worker *)base;
  const struct fi_info *info = worker->info;
  (void)peer;
  *cost = (struct transport_cost){.latency_ns = 12000, .piece_ns = 1200, .bytes_per_s = 3000000000};
  if (strncmp(info->fabric_attr->prov_name, "shm", 3) == 0)
    *cost = (struct transport_cost){.latency_ns = 1000, .piece_ns = 500, .bytes_per_s = 10000000000};
  else if (info->nic && info->nic->link_attr && info->nic->link_attr->speed > 0)
    *cost =
        (struct transport_cost){.latency_ns = 5000, .piece_ns = 300, .bytes_per_s = info->nic->link_attr->speed / 8};
}

static void version(char *text, size_t cap) {
  snprintf(text, cap, "%u.%u", FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
}

const struct transport transport_ofi = {
    .name = "ofi",
    .what = "networks through libfabric",
    .abilities =
        {
            .local_kinds = 1u << WEFT_MEMORY_HOST | 1u << WEFT_MEMORY_CUDA,
            .remote_kinds = 1u << WEFT_MEMORY_HOST | 1u << WEFT_MEMORY_CUDA,
            .flags = TRANSPORT_MESSAGES | TRANSPORT_OTHER_HOSTS | TRANSPORT_LENGTHS | TRANSPORT_MOVES,
        },
    .probe = probe,
    .version = version,
    .open = open_worker,
    .close = close_worker,
    .address = ofi_address,
    .reg = ofi_reg,
    .unreg = ofi_unreg,
    .pack = ofi_pack,
    .connect = ofi_connect,
    .disconnect = flow_disconnect,
    .fence = ofi_fence,
    .import = ofi_import,
    .release = flow_release,
    .prepare = flow_prepare,
    .unprepare = flow_unprepare,
    .post = flow_post,
    .cancel = flow_cancel,
    .progress = progress,
    .fd = worker_fd,
    .arm = arm,
    .uses = uses,
    .cost = cost,
};
