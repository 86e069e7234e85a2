// Which ranks share rows that come to their host, on CUDA memory.
#include "ep/gpu/remote/sharers.h"

#include "ep/gpu/gpu.h"
#include "ep/remote/neighbours.h"

// --- what is shown ---

// Operations for low latency have no rows that flow: their rows have fixed places in each window, so none are shared.
size_t ep_sharers_shown_bytes(const weft_ep_t *ep) {
  return ep_gpu_flows(ep) ? ep->gpu->area_bytes : 0;
}

int ep_sharers_shown(const struct ep_remote *remote) {
  return remote->link->device.shown;
}

// --- who shares ---

void ep_sharers_changed(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  if (net)
    atomic_store(&net->regroup, true);
}

// Whether rows can be sent over the link. The peer's number, by which others name its window, is then known.
static bool may_share(const struct ep_remote *remote) {
  return remote && remote->area && ep_link_up(remote->link) && remote->peer_id != 0;
}

static bool read_each_other(const struct ep_remote *a, const struct ep_remote *b) {
  return ep_neighbours_reads(a->link, b->link) && ep_neighbours_reads(b->link, a->link);
}

static bool fits(struct ep_net *net, const struct ep_sharers *group, const struct ep_remote *remote) {
  for (uint32_t i = 0; i < group->count; i++)
    if (!read_each_other(ep_remote_find(net, group->links[i]), remote))
      return false;
  return true;
}

static bool may_lead(const struct ep_net *net, const struct ep_remote *remote, uint32_t from) {
  for (uint32_t i = from; i < net->num_remotes; i++)
    if (may_share(net->remotes[i]) && read_each_other(remote, net->remotes[i]))
      return true;
  return false;
}

// Puts the link into the first group that it fits, or makes a group for it and for later links.
static void place(struct ep_net *net, struct ep_sharer_groups *found, uint32_t index) {
  struct ep_remote *remote = net->remotes[index];
  uint32_t i = 0;
  while (i < found->count && !fits(net, &found->groups[i], remote))
    i++;
  if (i == found->count && (i == EP_SHARER_GROUPS || !may_lead(net, remote, index + 1)))
    return;
  struct ep_sharers *group = &found->groups[i];
  if (i == found->count) {
    found->count++;
    group->count = 0;
  }
  group->links[group->count++] = remote->id;
  remote->group = i + 1;
}

// Drops groups with one link: the links that could have joined fit into an earlier group.
static void drop_single(struct ep_net *net, struct ep_sharer_groups *found) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < found->count; i++) {
    struct ep_sharers *group = &found->groups[i];
    bool shares = group->count > 1;
    for (uint32_t j = 0; j < group->count; j++)
      ep_remote_find(net, group->links[j])->group = shares ? count + 1 : 0;
    if (shares)
      found->groups[count++] = *group;
  }
  found->count = count;
}

const struct ep_sharer_groups *ep_sharers_find(struct ep_net *net) {
  struct ep_sharer_groups *found = &net->ep->gpu->sharers;
  if (!atomic_load_explicit(&net->regroup, memory_order_relaxed))
    return found;
  atomic_exchange(&net->regroup, false);
  found->version++;
  found->count = 0;
  for (uint32_t i = 0; i < net->num_remotes; i++)
    if (net->remotes[i])
      net->remotes[i]->group = 0;
  for (uint32_t i = 0; i < net->num_remotes; i++)
    if (may_share(net->remotes[i]))
      place(net, found, i);
  drop_single(net, found);
  return found;
}

const struct ep_sharers *ep_sharers_of(const struct ep_remote *remote) {
  return remote->group ? &remote->ep->gpu->sharers.groups[remote->group - 1] : NULL;
}
