// The transport's worker, its lock and its queue, and the thread that drives it.
#include "ep/remote/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/affinity.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "ep/core/engine.h"
#include "ep/remote/remote_link.h"
#include "transport/nics.h"

enum {
  IDLE_ROUNDS = 16,    // of the thread without news, before it sleeps; twice as many where the transport is busy
  NAP_NS = 1000000,    // of the thread, where the transport has no descriptor, or while the owner drives
  BUSY_NAP_NS = 50000, // where the transport has something to do, and cannot do it yet
  LINKS_MORE = 64,     // links that are let go of, beside those of the capacity
};

// --- the net lock ---

// A thread that has put something into the queue finds the lock free, or the lock's holder finds the queue when it
// unlocks: so the first look may not come before what was put there is visible.
static bool try_lock(struct ep_net *net) {
  return !atomic_load(&net->locked) && !atomic_exchange(&net->locked, true);
}

void ep_net_borrow(struct ep_net *net, struct ep_post *post) {
  post->borrows = true;
  atomic_fetch_add(&net->borrowing, 1);
}

static void give_back(struct ep_post *post) {
  struct ep_net *net = post->remote->net;
  if (!post->borrows)
    return;
  post->borrows = false;
  if (atomic_fetch_sub(&net->borrowing, 1) == 1)
    ep_doorbell_ring(ep_own_bell(net->ep));
}

static void taken(struct transport_request *request) {
  give_back(request->arg);
}

static void end(struct ep_post *post, int err) {
  post->in_flight = false;
  give_back(post);
  post->ended(post, err);
}

static void done(struct transport_request *request) {
  struct ep_post *post = request->arg;
  if (post->in_flight)
    end(post, atomic_load_explicit(&request->state, memory_order_acquire));
}

void ep_net_post_now(struct ep_net *net, struct ep_post *post) {
  if (ep_remote_failed(post->remote)) {
    end(post, WEFT_ERR_PEER_LOST);
    return;
  }
  post->request.arg = post;
  post->request.done = done;
  post->request.taken = taken;
  post->in_flight = true;
  net->num_posts++;
  int rc = net->transport->post(&post->request);
  if (rc != 0)
    end(post, rc);
}

static void empty_queue(struct ep_net *net) {
  struct ep_post *newest = atomic_exchange(&net->queue, NULL), *oldest = NULL;
  while (newest) { // turn it round
    struct ep_post *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest) {
    struct ep_post *next = oldest->next; // it may be in the queue again when it has ended
    ep_net_post_now(net, oldest);
    oldest = next;
  }
}

static void wake(struct ep_net *net) {
  if (!atomic_load(&net->asleep) || !atomic_exchange(&net->asleep, false))
    return;
  uint64_t one = 1;
  ssize_t written = write(net->kick, &one, sizeof one);
  (void)written;
}

// Unlocks. A thread that put something into the queue meanwhile, and did not get the lock, has left it to this one.
static void leave(struct ep_net *net) {
  do {
    empty_queue(net);
    atomic_store(&net->locked, false);
  } while (atomic_load(&net->queue) && try_lock(net));
}

// The thread may sleep on news that have been taken here.
void ep_net_unlock(struct ep_net *net) {
  leave(net);
  wake(net);
}

void ep_net_lock(struct ep_net *net) {
  atomic_fetch_add(&net->wanted, 1);
  while (!try_lock(net))
    sched_yield();
  atomic_fetch_sub(&net->wanted, 1);
}

uint32_t ep_net_progress(struct ep_net *net) {
  empty_queue(net);
  return net->worker ? net->transport->progress(net->worker) : 0;
}

void ep_net_shut(struct ep_net *net) {
  struct transport_worker *worker = net->worker;
  for (uint32_t i = 0; i < net->num_remotes; i++)
    if (net->remotes[i])
      net->events->closing(net->remotes[i]);
  net->worker = NULL;
  if (worker)
    net->transport->close(worker);
}

void ep_net_post(struct ep_net *net, struct ep_post *post) {
  struct ep_post *head = atomic_load_explicit(&net->queue, memory_order_relaxed);
  do
    post->next = head;
  while (!atomic_compare_exchange_weak(&net->queue, &head, post));
  bool ended = false;
  if (try_lock(net)) {
    empty_queue(net);
    ended = !post->in_flight;
    leave(net);
  }
  if (!ended && !atomic_load(&net->driving)) // no descriptor signals what the network did not take at once
    wake(net);
}

// The owner drives from here on until it hands over; the thread sleeps, and takes neither the net lock nor a processor.
// [owner]
static void take_over(struct ep_net *net) {
  if (!atomic_load_explicit(&net->driving, memory_order_relaxed))
    atomic_store(&net->driving, true);
}

void ep_net_drive_once(struct ep_net *net) {
  take_over(net);
  if (atomic_load_explicit(&net->wanted, memory_order_relaxed) || !try_lock(net))
    return;
  ep_net_progress(net);
  leave(net);
}

// The owner does something else from now on: the thread drives. [owner]
static void hand_over(struct ep_net *net) {
  if (atomic_exchange(&net->driving, false))
    wake(net);
}

// --- the thread ---

enum armed {
  ARMED, // there is nothing to do; the transport's descriptor becomes readable when there is
  BUSY,  // there is, but nothing that could be done now
  AWAKE, // something happened, or another thread drives
};

// `*fd` is the descriptor, where it will; else -1.
static enum armed arm(struct ep_net *net, int *fd) {
  *fd = -1;
  if (!try_lock(net))
    return AWAKE;
  atomic_store(&net->asleep, true); // before the look: what is posted after it comes with a kick
  enum armed armed = ep_net_progress(net) == 0 ? ARMED : AWAKE;
  if (armed == ARMED && net->worker)
    *fd = net->transport->fd(net->worker);
  if (*fd >= 0 && net->transport->arm && net->transport->arm(net->worker) != 0) {
    armed = BUSY;
    *fd = -1;
  }
  uint64_t posts = net->num_posts;
  empty_queue(net); // it must not be posted after the arming
  if (net->num_posts != posts)
    armed = AWAKE;
  if (armed == AWAKE)
    atomic_store(&net->asleep, false);
  leave(net);
  return armed;
}

// `nap_ns`: at most so long; 0: no limit but for a transport without a descriptor, -1.
static void sleep_until_news(struct ep_net *net, int fd, uint64_t nap_ns) {
  struct pollfd entries[] = {{.fd = net->kick, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
  if (nap_ns == 0 && fd < 0)
    nap_ns = NAP_NS;
  struct timespec nap = clock_timespec(nap_ns);
  ppoll(entries, 2, nap_ns ? &nap : NULL, NULL);
  atomic_store(&net->asleep, false);
  uint64_t drained;
  if (entries[0].revents)
    (void)!read(net->kick, &drained, sizeof drained);
}

// One round; true when something happened.
static bool drive(struct ep_net *net) {
  if (atomic_load(&net->wanted) || !try_lock(net)) {
    sched_yield();
    return false;
  }
  uint32_t news = ep_net_progress(net);
  if (net->ep->engine->poll)
    news += net->ep->engine->poll(net);
  leave(net);
  return news > 0;
}

// Rests after `idle` rounds without news; false: or does not. On CUDA memory, since `last_ns`, when there were news:
// kernels wake no thread when they have written something.
static bool rest(struct ep_net *net, uint32_t idle, uint64_t last_ns) {
  bool polls = net->ep->engine->poll != NULL;
  uint64_t nap_ns = net->ep->engine->nap_ns(last_ns);
  if (polls && nap_ns == 0) {
    sched_yield();
    return false;
  }
  int fd;
  enum armed armed = arm(net, &fd);
  if (armed == AWAKE || (armed == BUSY && idle < 2 * IDLE_ROUNDS))
    return false;
  sleep_until_news(net, fd, armed == BUSY ? BUSY_NAP_NS : nap_ns);
  return armed == ARMED && !polls;
}

// Near the GPU whose windows it carries, or near the NICs.
static void find_near(weft_ep_t *ep, struct affinity_place *place) {
  affinity_find(NULL, ep->pci, place);
}

static void *run(void *arg) {
  struct ep_net *net = arg;
  uint32_t idle = 0;
  uint64_t last_ns = 0; // of something that happened, on CUDA memory
  while (!atomic_load(&net->stop)) {
    if (atomic_load(&net->driving) && net->ep->engine->owner_drives) {
      atomic_store(&net->asleep, true);
      if (atomic_load(&net->driving))
        sleep_until_news(net, -1, 0);
      idle = IDLE_ROUNDS; // the owner has just looked
      continue;
    }
    if (drive(net)) {
      idle = 0;
      last_ns = net->ep->engine->poll ? clock_ns() : 0;
    } else if (++idle > IDLE_ROUNDS && rest(net, idle, last_ns)) {
      idle = 0;
    }
  }
  return NULL;
}

// --- opening ---

static bool can_carry(const struct transport_abilities *abilities) {
  uint32_t host = 1u << WEFT_MEMORY_HOST;
  uint32_t flags = TRANSPORT_MESSAGES | TRANSPORT_LENGTHS;
  return (abilities->flags & flags) == flags && (abilities->local_kinds & host) && (abilities->remote_kinds & host);
}

static int find_named(const char *name, const struct transport **transport) {
  char why[160] = "";
  int rc = transport_find(name, transport);
  if (rc == 0 && !can_carry(&(*transport)->abilities))
    rc = fail(WEFT_ERR_UNSUPPORTED, "the transport %s does not carry messages between ranks", name);
  if (rc == 0 && (*transport)->probe && (*transport)->probe(why, sizeof why) != 0)
    rc = fail(WEFT_ERR_UNSUPPORTED, "the transport %s does not work here: %s", name, why);
  return rc;
}

// The first that works. UCX comes last: where nobody named it, it has RDMA only.
static const char *const networks[] = {"ofi", "ucx", NULL};

static int find_any(const struct transport **transport) {
  for (const char *const *name = networks; *name; name++)
    if (find_named(*name, transport) == 0)
      return 0;
  return fail(WEFT_ERR_UNSUPPORTED, "no transport to other hosts works here: `weft info` says what is missing");
}

// What a caller proposes to a rank without a setting: one of those that it might have chosen itself.
static int find_proposed(const char *proposal, const struct transport **transport) {
  for (const char *const *name = networks; *name; name++)
    if (strcmp(*name, proposal) == 0)
      return find_named(*name, transport);
  return fail(WEFT_ERR_UNSUPPORTED, "a caller would be reached by %s: set WEFT_EP_TRANSPORT on all", proposal);
}

static void on_message(void *arg, const void *bytes, size_t size) {
  struct ep_net *net = arg;
  net->events->message(net, bytes, size);
}

static void on_peer(void *arg, struct transport_peer *peer, int err, const char *why) {
  struct ep_net *net = arg;
  if (peer->arg)
    net->events->failed(peer->arg, err, why);
}

void ep_net_owner(char owner[EP_NET_OWNER], int32_t rank, uint64_t incarnation) {
  snprintf(owner, EP_NET_OWNER, "rank %" PRId32 " %016" PRIx64, rank, incarnation);
}

static int open_worker(struct ep_net *net) {
  struct transport_nics nics;
  char owner[EP_NET_OWNER];
  ep_net_owner(owner, net->ep->rank, net->ep->incarnation);
  transport_nics_choose(net->transport, net->ep->device >= 0 ? net->ep->device : TRANSPORT_NO_GPU, &nics);
  struct transport_options options = {.size = sizeof options,
                                      .on_message = on_message,
                                      .on_peer = on_peer,
                                      .arg = net,
                                      .settings = nics.settings,
                                      .threads = true,
                                      .owner = owner,
                                      .unasked = net->ep->links.transport[0] == '\0'};
  if (nics.why[0])
    log_info("rank %d: NICs of %s: %s", net->ep->rank, net->transport->name, nics.why);
  int rc = net->transport->open(&options, &net->worker);
  net->address_size = sizeof net->address;
  if (rc == 0)
    rc = net->transport->address(net->worker, net->address, &net->address_size);
  return rc;
}

static int start(struct ep_net *net) {
  net->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (net->kick < 0)
    return fail_errno(errno, "cannot start the net thread");
  struct affinity_place place;
  find_near(net->ep, &place);
  int error = affinity_create(&place, &net->thread, run, net);
  if (error != 0)
    return fail_thread(error, "the net thread");
  net->running = true;
  return 0;
}

static int open_new(weft_ep_t *ep, const struct transport *transport, const struct ep_net_events *events,
                    struct ep_net **out) {
  struct ep_net *net = calloc(1, sizeof *net);
  if (!net)
    return fail(WEFT_ERR_NOMEM, "no memory for the way to other hosts");
  net->ep = ep;
  net->events = events;
  net->transport = transport;
  net->kick = -1;
  net->num_remotes = 2 * ep->capacity + LINKS_MORE;
  net->remotes = calloc(net->num_remotes, sizeof(struct ep_remote *));
  int rc = net->remotes ? open_worker(net) : fail(WEFT_ERR_NOMEM, "no memory for links to other hosts");
  if (rc == 0)
    rc = start(net);
  if (rc != 0) {
    ep_net_close(net);
    return fail_context(rc, "transport %s", transport->name);
  }
  log_info("rank %d reaches other hosts by %s", ep->rank, transport->name);
  *out = net;
  return 0;
}

void ep_net_doubt(weft_ep_t *ep) {
  struct ep_net *net = atomic_load(&ep->net);
  if (net)
    atomic_store(&net->doubted, true);
}

static bool is_unused(const struct ep_net *net) {
  for (uint32_t i = 0; i < net->num_remotes; i++)
    if (net->remotes[i])
      return false;
  return true;
}

// Opens a worker in the place of one that peers do not reach. UNREACHABLE: there is none to be had now.
static int renew(struct ep_net *net) {
  int rc = 0;
  ep_net_lock(net);
  if (is_unused(net)) {
    ep_net_shut(net);
    rc = open_worker(net);
    if (rc == 0) {
      atomic_store(&net->doubted, false);
      log_info("rank %d has opened its way to other hosts anew: a peer could not reach it", net->ep->rank);
    }
  }
  ep_net_unlock(net); // which wakes the net thread, if it sleeps on the old one's descriptor
  return rc == 0 ? 0 : fail_context(WEFT_ERR_UNREACHABLE, "transport %s", net->transport->name);
}

// --- what the owner drives while it waits ---

static void drive_for_owner(weft_ep_t *ep) {
  ep_net_drive_once(atomic_load_explicit(&ep->net, memory_order_relaxed));
}

static void hand_over_for_owner(weft_ep_t *ep) {
  hand_over(atomic_load_explicit(&ep->net, memory_order_relaxed));
}

static void sign_for_owner(weft_ep_t *ep, uint64_t now_ns) {
  atomic_load_explicit(&ep->net, memory_order_relaxed)->events->sign(ep, now_ns);
}

static const struct ep_background background = {drive_for_owner, hand_over_for_owner, sign_for_owner};

int ep_net_open(weft_ep_t *ep, const char *name, const struct ep_net_events *events, struct ep_net **out) {
  const char *own = ep->links.transport[0] ? ep->links.transport : NULL;
  const struct transport *transport = NULL;
  pthread_mutex_lock(&ep->net_lock);
  struct ep_net *net = atomic_load(&ep->net);
  int rc = 0;
  if (net && atomic_load(&net->doubted))
    rc = renew(net);
  if (!net && !(own && name && strcmp(own, name) != 0)) {
    if (own)
      rc = find_named(own, &transport);
    else if (name)
      rc = find_proposed(name, &transport);
    else
      rc = find_any(&transport);
    if (rc == 0)
      rc = open_new(ep, transport, events, &net);
    if (rc == 0) {
      atomic_store(&ep->net, net);
      atomic_store(&ep->background, &background);
    }
  }
  pthread_mutex_unlock(&ep->net_lock);
  const char *used = net ? net->transport->name : own;
  if (rc == 0 && name && strcmp(used, name) != 0)
    rc = fail(WEFT_ERR_UNSUPPORTED, "rank %d reaches other hosts by %s and not by %s: set WEFT_EP_TRANSPORT on all",
              ep->rank, used, name);
  if (rc == 0)
    *out = net;
  return rc;
}

void ep_net_close(struct ep_net *net) {
  if (!net)
    return;
  if (net->running) {
    atomic_store(&net->stop, true);
    atomic_store(&net->driving, false);
    atomic_store(&net->asleep, true);
    wake(net);
    pthread_join(net->thread, NULL);
  }
  if (net->worker)
    net->transport->close(net->worker);
  for (uint32_t i = 0; i < EP_NET_BURIED; i++)
    ep_window_release(&net->buried[i]);
  if (net->kick >= 0)
    close(net->kick);
  free(net->remotes);
  free(net);
}

void ep_net_bury(struct ep_net *net, struct ep_window *window) {
  struct ep_window *grave = &net->buried[net->num_buried++ % EP_NET_BURIED];
  ep_window_release(grave);
  void *memory = mmap(window->memory, window->size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED)
    return; // the window stays what it is, and is released by its owner
  *grave = *window;
  *window = (struct ep_window){0};
}
