// The path of a link to another host (link/path.h): written data stays in a shadow until it is published.
#include <stdio.h>

#include <weft/agent.h>

#include "ep/remote/remote_link.h"

static void name(const struct ep_link *link, char *text, size_t cap) {
  const struct ep_remote *remote = link->remote;
  struct ep_net *net = remote->net;
  char uses[WEFT_AGENT_MAX_DETAIL] = "";
  if (net && net->transport->uses) {
    ep_net_lock(net);
    if (net->worker && remote->peer)
      net->transport->uses(net->worker, remote->peer, uses, sizeof uses);
    ep_net_unlock(net);
  }
  snprintf(text, cap, "%s%s%s", ep_remote_way(remote), uses[0] ? " " : "", uses);
}

static int failure(const struct ep_link *link, const char **why) {
  *why = link->remote->why;
  return atomic_load_explicit(&link->remote->failed, memory_order_acquire);
}

static void flush(struct ep_link *link) {
  link->remote->ep->engine->carrier->flush(link->remote);
}

static void free_remote(struct ep_link *link) {
  ep_remote_free(link->remote);
}

const struct ep_path_ops ep_path_remote = {
    .shadow = true,
    .name = name,
    .settle = ep_put_settle,
    .rows_written = ep_put_rows_written,
    .publish = ep_put_publish,
    .acknowledge = ep_words_acknowledge,
    .publish_start = ep_words_publish_start,
    .zero_copy_rows = ep_put_zero_copy_rows,
    .zero_copy = ep_put_zero_copy,
    .notify = ep_control_notify,
    .listen = ep_control_listen,
    .receive_last = ep_control_receive_last,
    .verdict = ep_control_verdict,
    .failure = failure,
    .flush = flush,
    .free = free_remote,
};
