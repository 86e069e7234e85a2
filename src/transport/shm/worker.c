// Workers of the transport shm: opening, progress and closing.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/boot_id.h"
#include "base/fail.h"
#include "base/random.h"
#include "base/time/clock.h"
#include "transport/shm/shm.h"

enum { CLOSE_MS = 1000 };

static int no(char *why, size_t cap, const char *text) {
  bool full = errno == EMFILE || errno == ENFILE; // then it is not known
  int rc = full ? fail_errno(errno, "%s", text) : fail(WEFT_ERR_UNSUPPORTED, "%s", text);
  snprintf(why, cap, "%s", weft_last_error());
  return rc;
}

static int probe(char *why, size_t cap) {
  int memory = memfd_create("weft-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0)
    return no(why, cap, "memfd_create does not work here");
  close(memory);
  int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
  if (process < 0)
    return no(why, cap,
              "pidfd_open does not work here: shared memory needs Linux 5.3, and no seccomp filter against it");
  close(process);
  if (access("/proc/self/fd", R_OK) != 0)
    return no(why, cap, "/proc is not mounted: shared memory finds its peers there");
  return 0;
}

// Identifies the host by its boot id and the setting host=, by which tests have several on one.
static int name_host(struct shm_worker *worker, const char *extra) {
  char boot[BOOT_ID_SIZE];
  int rc = boot_id_read(boot);
  if (rc != 0)
    return rc;
  for (int half = 0; half < 2; half++)
    worker->host[half] = random_mix_text(random_mix_text((uint64_t)half, boot), extra);
  struct stat status;
  if (stat("/proc/self/ns/pid", &status) != 0)
    return fail_errno(errno, "cannot find out which pid namespace this is");
  worker->pid_space = status.st_ino;
  return 0;
}

static int take_settings(struct shm_worker *worker, const char *const *settings) {
  const char *host = "";
  for (; settings && *settings; settings++) {
    if (strncmp(*settings, "host=", 5) == 0)
      host = *settings + 5;
    else if (strcmp(*settings, "map=off") == 0)
      worker->no_map = true;
    else if (strcmp(*settings, "vm=off") == 0)
      worker->no_vm = true;
    else if (strcmp(*settings, "here=off") == 0)
      worker->no_here = true;
    else if (strcmp(*settings, "map=on") != 0 && strcmp(*settings, "vm=on") != 0 && strcmp(*settings, "here=on") != 0)
      return fail(WEFT_ERR_INVALID, "shm has the settings host=NAME, and map, vm and here, which are on or off; not %s",
                  *settings);
  }
  return name_host(worker, host);
}

static int set_up(struct shm_worker *worker, const struct transport_options *options) {
  int rc = take_settings(worker, options->settings);
  if (rc != 0)
    return rc;
  worker->taken = calloc(SHM_REGIONS / 32, sizeof *worker->taken);
  worker->owner = strdup(options->owner ? options->owner : "");
  if (!worker->taken || !worker->owner)
    return fail(WEFT_ERR_NOMEM, "no memory for a worker");
  int bell[2];
  if (pipe2(bell, O_CLOEXEC | O_NONBLOCK) != 0)
    return fail_errno(errno, "cannot make a doorbell");
  worker->bell_read = bell[0];
  worker->bell_write = bell[1];
  worker->epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN};
  if (worker->epoll < 0 || epoll_ctl(worker->epoll, EPOLL_CTL_ADD, worker->bell_read, &event) != 0)
    return fail_errno(errno, "cannot wait for a doorbell");
  struct stat status;
  if (fstat(worker->bell_write, &status) != 0)
    return fail_errno(errno, "cannot look at a doorbell");
  const struct shm_file file = {S_IFIFO, status.st_dev, status.st_ino};
  worker->bell_device = status.st_dev;
  rc = shm_home_create(random_id(), worker->bell_write, &file, &worker->page_fd, &worker->home);
  if (rc == 0)
    worker->page = worker->home->page;
  return rc;
}

static void close_fd(int fd) {
  if (fd >= 0)
    close(fd);
}

static void free_worker(struct shm_worker *worker) {
  for (uint32_t i = 0; i < SHM_SLOTS; i++)
    close_fd(worker->bells[i]);
  close_fd(worker->page_fd);
  close_fd(worker->bell_read);
  close_fd(worker->bell_write);
  close_fd(worker->epoll);
  if (worker->home)
    shm_home_leave(worker->home);
  free(worker->taken);
  free(worker->owner);
  free(worker);
}

static int open_worker(const struct transport_options *options, struct transport_worker **made) {
  struct shm_worker *worker = calloc(1, sizeof *worker);
  if (!worker)
    return fail(WEFT_ERR_NOMEM, "no memory for a worker");
  worker->base =
      (struct transport_worker){.transport = &transport_shm, .abilities = transport_shm.abilities, .options = *options};
  worker->page_fd = worker->bell_read = worker->bell_write = worker->epoll = -1;
  memset(worker->bells, -1, sizeof worker->bells);
  worker->next_id = random_id() >> 8 | 1; // never 0, far from its end, and different from another worker's
  int rc = set_up(worker, options);
  if (rc != 0) {
    free_worker(worker);
    return rc;
  }
  worker->base.options.settings = NULL;
  worker->base.options.device = NULL;
  worker->base.options.owner = NULL;
  *made = &worker->base;
  return 0;
}

static bool free_leaving(struct shm_worker *worker) {
  for (struct shm_peer **link = &worker->leaving; *link;) {
    struct shm_peer *peer = *link;
    if (atomic_load(&peer->active) != 0) {
      link = &peer->next;
      continue;
    }
    *link = peer->next;
    shm_peer_free(peer);
  }
  return worker->leaving == NULL;
}

// Wakes the senders, which see that the page is marked as closed.
static void announce_closed(struct shm_worker *worker) {
  for (uint32_t i = 0; i < SHM_SLOTS; i++)
    if (atomic_load(&worker->page->slots[i].state) == SHM_SLOT_READY)
      shm_ring_wake_sender(worker, i);
}

static void close_worker(struct transport_worker *base) {
  if (!base)
    return;
  struct shm_worker *worker = (struct shm_worker *)base;
  while (worker->peers)
    shm_disconnect(&worker->peers->base);
  uint64_t deadline_ns = clock_deadline_ms(CLOSE_MS);
  do
    while (shm_move_on(worker)) // which ends them
      ;
  while (!free_leaving(worker) && !clock_passed(deadline_ns) && sched_yield() == 0);
  atomic_store(&worker->page->closed, 1); // before the gates close: a peer that finds one closed sees why
  while (worker->regions)
    shm_unreg(&worker->regions->base);
  announce_closed(worker);
  free_worker(worker);
}

static int address(struct transport_worker *base, void *bytes, size_t *size) {
  const struct shm_worker *worker = (const struct shm_worker *)base;
  struct shm_address own = {.host = {worker->host[0], worker->host[1]},
                            .pid_space = worker->pid_space,
                            .cookie = worker->home->cookie,
                            .proof_inode = worker->home->proof.inode,
                            .pid = (uint32_t)worker->home->pid,
                            .proof_fd = worker->home->proof_fd};
  return shm_address_pack(worker->home, worker->owner, &own, bytes, size);
}

// The peer has died or closed: delivers what it sent before, then reports it. Returns the number of events.
static uint32_t lose(struct shm_worker *worker, struct shm_peer *peer, const char *why) {
  uint32_t count = shm_ring_receive_all(worker);
  shm_peer_lost(peer, WEFT_ERR_PEER_LOST, why);
  return count + 1;
}

static uint32_t look_for_closed(struct shm_worker *worker) {
  uint32_t count = 0;
  for (struct shm_peer *peer = worker->peers; peer; peer = peer->next) {
    if (!peer->reported && atomic_load_explicit(&peer->page->closed, memory_order_acquire))
      count += lose(worker, peer, "it has closed its transport");
  }
  return count;
}

static uint32_t look_at_descriptors(struct shm_worker *worker) {
  enum { AT_ONCE = 16 };
  struct epoll_event events[AT_ONCE];
  char bytes[256];
  uint32_t count = 0;
  int ready = epoll_wait(worker->epoll, events, AT_ONCE, 0);
  for (int i = 0; i < ready; i++) {
    struct shm_peer *peer = events[i].data.ptr;
    if (!peer) {
      while (read(worker->bell_read, bytes, sizeof bytes) == (ssize_t)sizeof bytes)
        ;
      continue;
    }
    char why[64];
    snprintf(why, sizeof why, "its process %d has died", (int)peer->pid);
    count += lose(worker, peer, why);
    atomic_store(&worker->page->sweep, 1);
  }
  return count + look_for_closed(worker);
}

static uint32_t progress(struct transport_worker *base) {
  struct shm_worker *worker = (struct shm_worker *)base;
  uint32_t count = 0;
  if (worker->slept || ++worker->ticks % SHM_LOOK_EVERY == 0) {
    worker->slept = false;
    count += look_at_descriptors(worker);
    if (atomic_load(&worker->page->sweep))
      shm_ring_sweep(worker);
  }
  count += shm_ring_receive(worker) + shm_move_on(worker);
  if (atomic_load(&worker->waiting))
    for (struct shm_peer *peer = worker->peers; peer; peer = peer->next)
      if (atomic_load(&peer->waits))
        shm_queue_send(peer);
  if (worker->leaving)
    free_leaving(worker);
  return count;
}

static int get_fd(struct transport_worker *base) {
  return ((struct shm_worker *)base)->epoll;
}

static int arm(struct transport_worker *base) {
  struct shm_worker *worker = (struct shm_worker *)base;
  worker->slept = true;
  atomic_store(&worker->page->armed, 1);
  bool busy = worker->leaving || worker->moving || atomic_load(&worker->large) || atomic_load(&worker->page->sweep);
  for (uint32_t word = 0; word < SHM_SLOTS / 64 && !busy; word++)
    busy = atomic_load(&worker->page->ready[word]) != 0;
  if (!busy)
    return 0;
  atomic_store(&worker->page->armed, 0);
  return WEFT_ERR_BUSY; // without a sentence: it is not a failure, and happens often
}

static void cost(struct transport_worker *base, const struct transport_peer *peer, struct transport_cost *is) {
  (void)base, (void)peer;
  *is = (struct transport_cost){.latency_ns = 150, .piece_ns = 30, .bytes_per_s = 10000000000u};
}

const struct transport transport_shm = {
    .name = "shm",
    .what = "between processes of one host: mapped memory, and process_vm",
    .abilities = {.local_kinds = 1 << WEFT_MEMORY_HOST,
                  .remote_kinds = 1 << WEFT_MEMORY_HOST,
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_CONCURRENT_POST |
                           TRANSPORT_REPORTS_DEATH | TRANSPORT_MAPS | TRANSPORT_LENGTHS | TRANSPORT_MOVES},
    .probe = probe,
    .open = open_worker,
    .close = close_worker,
    .address = address,
    .reg = shm_reg,
    .unreg = shm_unreg,
    .pack = shm_pack,
    .connect = shm_connect,
    .disconnect = shm_disconnect,
    .fence = shm_fence,
    .import = shm_import,
    .release = shm_release,
    .map = shm_map,
    .prepare = shm_prepare,
    .unprepare = shm_unprepare,
    .post = shm_post,
    .cancel = shm_cancel,
    .progress = progress,
    .fd = get_fd,
    .arm = arm,
    .cost = cost,
};
