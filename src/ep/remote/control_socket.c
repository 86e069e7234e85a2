// The control socket of a link to another host: notices of the peer, within TLS, and what its silence means.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/time/clock.h"
#include "ep/link/tcp_listener.h"
#include "ep/remote/remote_link.h"

enum {
  COUNT_BITS = 56,
  LAST_MS = 200,
  WORDS_AT_ONCE = 16, // most words read from one peer before others get a turn: a peer sends few in its life
};

static const uint64_t number_mask = (UINT64_C(1) << COUNT_BITS) - 1;

// A word consists of a notice and the number that belongs to it. Call with socket_lock held.
static void write_word(struct ep_link *link, uint64_t what, uint64_t number) {
  uint64_t word = what << COUNT_BITS | number;
  size_t sent;
  tls_write(link->remote->tls, &word, sizeof word, &sent); // if this fails, there is no reader
}

static uint64_t messages_so_far(const struct ep_link *link) {
  return atomic_load(&link->remote->messages_sent);
}

void ep_control_notify(struct ep_link *link, enum ep_notice what) {
  struct ep_remote *remote = link->remote;
  if (!remote || link->socket < 0)
    return;
  pthread_mutex_lock(&remote->socket_lock);
  if (remote->owes_welcome)
    remote->owed |= 1u << what;
  else
    write_word(link, what, messages_so_far(link));
  pthread_mutex_unlock(&remote->socket_lock);
}

bool ep_control_notify_reads(struct ep_link *link, uint64_t area) {
  struct ep_remote *remote = link->remote;
  pthread_mutex_lock(&remote->socket_lock);
  bool ready = !remote->owes_welcome && link->socket >= 0;
  if (ready)
    write_word(link, EP_NOTICE_READS, area);
  pthread_mutex_unlock(&remote->socket_lock);
  return ready;
}

void ep_remote_welcome(struct ep_link *link, const struct ep_tcp_message *welcome) {
  struct ep_remote *remote = link->remote;
  size_t said = 0, sent = 0;
  pthread_mutex_lock(&remote->socket_lock);
  while (said < sizeof *welcome &&
         tls_write(remote->tls, (const char *)welcome + said, sizeof *welcome - said, &sent) == 0)
    said += sent;
  remote->owes_welcome = false;
  for (uint64_t what = EP_NOTICE_LEFT; what <= EP_NOTICE_LOST; what++)
    if (remote->owed >> what & 1)
      write_word(link, what, messages_so_far(link));
  pthread_mutex_unlock(&remote->socket_lock);
}

// 0, or EPROTO: no rank sends that word.
static int take(struct ep_link *link, uint64_t word) {
  if (word >> COUNT_BITS == EP_NOTICE_LEFT) {
    atomic_store(&link->remote->awaited, word & number_mask);
    atomic_store(&ep_link_in(link)->notice.left, 1);
  } else if (word >> COUNT_BITS == EP_NOTICE_LOST) {
    atomic_store(&ep_link_in(link)->notice.lost, 1);
  } else if (word >> COUNT_BITS == EP_NOTICE_READS) {
    atomic_store(&link->remote->reads[link->remote->num_reads++ % EP_READS], word & number_mask);
    if (link->remote->net)
      atomic_store(&link->remote->net->regroup, true);
  } else if (word >> COUNT_BITS == EP_NOTICE_CONFIRMED) {
    atomic_store(&link->unconfirmed, false);
    ep_service_kick(link->remote->ep); // any thread may have received it
  } else {
    return EPROTO;
  }
  return 0;
}

// 0: nothing has arrived, or `*some` has; else an errno. TLS would report the end of the connection without its reason.
static int look(const struct ep_link *link, bool *some) {
  char byte;
  *some = tls_has_bytes(link->remote->tls);
  ssize_t size = *some ? 1 : recv(link->socket, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT);
  *some = size > 0;
  return size > 0 ? 0 : size == 0 ? EPIPE : errno == EAGAIN || errno == EINTR ? 0 : errno;
}

static int listen_locked(struct ep_link *link) {
  struct ep_remote *remote = link->remote;
  for (int words = 0; words < WORDS_AT_ONCE;) {
    bool some;
    size_t size = 0;
    int error = look(link, &some);
    if (error != 0 || !some)
      return error;
    int rc = tls_read(remote->tls, (char *)&remote->word + remote->word_bytes, sizeof remote->word - remote->word_bytes,
                      &size);
    if (rc != 0)
      return rc > 0 ? 0 : rc == WEFT_ERR_PROTOCOL ? EPROTO : EPIPE;
    remote->word_bytes += size;
    if (remote->word_bytes == sizeof remote->word) {
      remote->word_bytes = 0;
      words++;
      if (take(link, remote->word) != 0)
        return EPROTO;
    }
  }
  return 0;
}

int ep_control_listen(struct ep_link *link) {
  pthread_mutex_lock(&link->remote->socket_lock);
  int error = listen_locked(link);
  pthread_mutex_unlock(&link->remote->socket_lock);
  return error;
}

void ep_control_receive_last(struct ep_link *link) {
  struct ep_remote *remote = link->remote;
  if (!remote->net) // kernels have written the data in its place
    return;
  uint64_t deadline_ns = clock_deadline_ms(LAST_MS);
  uint32_t news;
  bool more; // more may arrive
  do {
    ep_net_lock(remote->net);
    news = ep_net_progress(remote->net);
    more = remote->peer && remote->peer->failed == 0 &&
           atomic_load(&remote->messages_received) < atomic_load(&remote->awaited);
    ep_net_unlock(remote->net);
  } while ((news > 0 || more) && !clock_passed(deadline_ns));
}

// Whether the peer's host has acknowledged nothing for a while, although keep-alive probes are sent every second.
static bool is_quiet(const struct ep_link *link) {
  struct tcp_info info = {0}; // not every kernel fills every field: the others are 0
  socklen_t size = sizeof info;
  return getsockopt(link->socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_last_ack_recv > EP_ENDPOINT_TIMEOUT_MS / 2;
}

enum ep_link_state ep_control_verdict(weft_ep_t *ep, struct ep_link *silent) {
  uint32_t quiet = 1, members = 1;
  const struct group_view *view = group_view(ep->group);
  pthread_mutex_lock(&ep->links.lock); // so that no link in the table is freed
  for (uint32_t i = 0; view && i < view->count; i++) {
    struct ep_link *link = atomic_load(&ep->links.by_rank[view->members[i].rank]);
    members += view->members[i].rank != ep->rank;
    quiet += link && link != silent && link->remote && (!ep_link_up(link) || is_quiet(link));
  }
  pthread_mutex_unlock(&ep->links.lock);
  group_view_unref(view);
  return ep_activation_isolated(quiet, members) ? EP_LINK_DOUBTED : EP_LINK_SILENT;
}
