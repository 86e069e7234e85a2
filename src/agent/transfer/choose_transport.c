// Chooses the transport of a transfer: among the possible ones, the transport with the least estimated time; among
// equal ones, the first. The same input gives the same choice, and the text lines give the reason.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/memory/region.h"
#include "agent/peer/table.h"
#include "agent/progress/submit.h"
#include "agent/transfer/import.h"
#include "agent/transfer/transfer.h"
#include "base/fail.h"
#include "base/text/text.h"

// latency + cost of each further piece + bytes / bandwidth + additional cost of each piece for `on_gpus` sides in GPU
// memory.
static uint64_t reckon(const struct transport_cost *cost, uint32_t pieces, uint64_t bytes, uint32_t on_gpus) {
  uint64_t ns = cost->latency_ns + (uint64_t)(pieces - 1) * cost->piece_ns;
  ns += (uint64_t)pieces * on_gpus * cost->gpu_piece_ns;
  return ns + (cost->bytes_per_s > 0 ? (uint64_t)((double)bytes * 1e9 / (double)cost->bytes_per_s) : 0);
}

// Whether the worker has all regions of both sides. [lock]
static int has_regions(struct agent_worker *worker, const weft_dlist_t *local, const weft_dlist_t *remote, char *why,
                       size_t size) {
  char name[120];
  for (uint32_t i = 0; i < local->num_regions; i++) {
    struct agent_region *region = local->regions[i];
    if (region->local[worker->index])
      continue;
    snprintf(why, size, "it does not have %s%s%s", agent_region_name(region, name, sizeof name),
             region->why[worker->index] ? ": " : "", region->why[worker->index] ? region->why[worker->index] : "");
    return -1;
  }
  for (uint32_t i = 0; i < remote->num_regions; i++) {
    struct agent_region *region = remote->regions[i];
    if (agent_region_remote(region, worker))
      continue;
    snprintf(why, size, "it does not reach %s of %s%s%s", agent_region_name(region, name, sizeof name),
             remote->peer->name, region->why[worker->index] ? ": " : "",
             region->why[worker->index] ? region->why[worker->index] : "");
    return -1;
  }
  return 0;
}

// Whether it would, on another host.
static bool could(const struct agent_worker *worker, const weft_dlist_t *local, const weft_dlist_t *remote) {
  const struct transport_abilities *can = &worker->transport->abilities;
  return (can->local_kinds & 1u << local->kind) && (can->remote_kinds & 1u << remote->kind);
}

// 0: the transport can carry the transfer. Else `why` has the reason why not. Local and remote are the transport's
// sides here.
static int judge(struct agent_worker *worker, const weft_dlist_t *local, const weft_dlist_t *remote, char *why,
                 size_t size) {
  const struct transport_abilities *can = &worker->worker->abilities;
  if (!(can->local_kinds & 1u << local->kind) || !(can->remote_kinds & 1u << remote->kind)) {
    bool explains = could(worker, local, remote) && worker->worker->lacks[0];
    snprintf(why, size, "it cannot move bytes from %s to %s%s%s", agent_kind_name(local->kind),
             agent_kind_name(remote->kind), explains ? ": " : "", explains ? worker->worker->lacks : "");
    return -1;
  }
  if ((can->flags & TRANSPORT_SELF_ONLY) && remote->peer->id != WEFT_PEER_SELF) {
    snprintf(why, size, "it serves an agent's own memory only");
    return -1;
  }
  struct agent_link *link = agent_link_get(remote->peer, worker);
  if (!link) {
    snprintf(why, size, "%s", remote->peer->links[worker->index].why);
    return -1;
  }
  return has_regions(worker, local, remote, why, size);
}

struct choice {
  struct agent_worker *worker;
  uint64_t ns;
  bool swapped;
};

// Looks at one worker, writes its line, keeps it if it is the best so far.
static void weigh(struct agent_worker *worker, weft_transfer_t *transfer, struct text *text, struct choice *best) {
  char why[400];
  const weft_dlist_t *local = transfer->local, *remote = transfer->remote;
  bool swapped = false;
  int rc = judge(worker, local, remote, why, sizeof why);
  // Within one agent either side can be the transport's local one: so a file is read into memory by a WRITE from it.
  if (rc != 0 && remote->peer->id == WEFT_PEER_SELF && local->kind != remote->kind) {
    char other[400];
    rc = judge(worker, remote, local, other, sizeof other);
    swapped = rc == 0;
    if (rc != 0 && could(worker, remote, local))
      snprintf(why, sizeof why, "%s", other);
  }
  if (rc != 0) {
    text_add(text, "%s: cannot: %s\n", worker->transport->name, why);
    return;
  }
  struct transport_cost cost = {0};
  agent_worker_lock(worker);
  worker->transport->cost(worker->worker, remote->peer->links[worker->index].to, &cost);
  agent_worker_unlock(worker);
  uint32_t on_gpus = (local->kind == WEFT_MEMORY_CUDA) + (remote->kind == WEFT_MEMORY_CUDA);
  uint64_t ns = reckon(&cost, transfer->num_pieces, transfer->bytes, on_gpus);
  text_add(text,
           "%s: %" PRIu64 " ns = %" PRIu64 " ns + %u further pieces of %" PRIu64 " ns + %" PRIu64 " bytes at %.3g GB/s",
           worker->transport->name, ns, cost.latency_ns, transfer->num_pieces - 1, cost.piece_ns, transfer->bytes,
           (double)cost.bytes_per_s / 1e9);
  if (on_gpus > 0 && cost.gpu_piece_ns > 0)
    text_add(text, " + %" PRIu64 " ns a piece for each side on a GPU", cost.gpu_piece_ns);
  text_add(text, "\n");
  if (worker->nics[0])
    text_add(text, "%s: NICs: %s\n", worker->transport->name, worker->nics);
  if (!best->worker || ns < best->ns)
    *best = (struct choice){worker, ns, swapped};
}

static int explain(weft_transfer_t *transfer, const struct choice *best, struct text *weighed) {
  struct text text = {0};
  text_add(&text, "%s is chosen\n%s", best->worker->transport->name, weighed->data ? weighed->data : "");
  if (text.failed || weighed->failed) {
    text_free(&text);
    return fail(WEFT_ERR_NOMEM, "no memory to explain the choice of a transport");
  }
  transfer->explanation = text_take(&text);
  return 0;
}

int agent_select(weft_transfer_t *transfer, const char *name, bool *swapped) {
  weft_agent_t *agent = transfer->agent;
  struct text text = {0};
  struct choice best = {0};
  bool known = false;
  for (uint32_t i = 0; i < agent->num_workers; i++) {
    struct agent_worker *worker = &agent->workers[i];
    bool named = !name || strcmp(worker->transport->name, name) == 0;
    known |= named;
    if (named)
      weigh(worker, transfer, &text, &best);
    else
      text_add(&text, "%s: another one was asked for\n", worker->transport->name);
  }
  int rc;
  if (!known) {
    rc = fail(WEFT_ERR_UNSUPPORTED, "this agent has no transport %s: name it in weft_agent_options.transports", name);
  } else if (!best.worker) {
    size_t end = text.size > 0 ? text.size - 1 : 0; // without the last newline
    rc = fail(WEFT_ERR_UNREACHABLE, "no transport can: %.*s", (int)end, text.data ? text.data : "");
  } else {
    rc = explain(transfer, &best, &text);
  }
  text_free(&text);
  if (rc != 0)
    return rc;
  transfer->link = &transfer->peer->links[best.worker->index];
  transfer->estimate_ns = best.ns;
  *swapped = best.swapped;
  return 0;
}
