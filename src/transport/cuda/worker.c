// Workers of the transport cuda: opening, progress and closing.
#include "transport/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "base/wire/card.h"

enum {
  CLOSE_NS = 1000000000, // for what runs on a GPU
  LATENCY_NS = 9000,     // a copy of few bytes, its launch and the look at its mark among it
  PIECE_NS = 30,         // of a kernel's many
};
#define NVLINK_BYTES_PER_S UINT64_C(350000000000)

// The address of shm.
static const struct card address_card = {"address of cuda", 0x57435544, 3};

static struct cuda_worker *worker_of(struct transport_worker *worker) {
  return (struct cuda_worker *)worker;
}

static int load(const struct device_api **api) {
  char why[DEVICE_WHY] = "";
  int count = 0;
  int rc = device_load(api);
  if (rc != 0)
    return rc;
  rc = (*api)->count(&count, why);
  return rc == 0 ? 0 : device_fail(rc, "the transport cuda", why);
}

static int probe(char *why, size_t cap) {
  const struct device_api *api;
  int rc = load(&api);
  if (rc != 0)
    snprintf(why, cap, "%s", weft_last_error());
  return rc;
}

int cuda_worker_device(struct cuda_worker *worker, int index, struct device **device) {
  char why[DEVICE_WHY] = "";
  if (index < 0 || index >= worker->num_devices)
    return fail(WEFT_ERR_INVALID, "there is no GPU %d: this process sees %d", index, worker->num_devices);
  int rc = 0;
  if (!worker->devices[index])
    rc = worker->api->open(index, &worker->devices[index], why);
  if (rc == 0 && !worker->streams[index])
    rc = worker->api->stream_open(worker->devices[index], &worker->streams[index], why);
  if (rc != 0)
    return device_fail(rc, "a GPU for copies", why);
  *device = worker->devices[index];
  return 0;
}

int cuda_worker_find(const struct cuda_worker *worker, const uint8_t uuid[16]) {
  for (int i = 0; i < worker->num_devices; i++)
    if (memcmp(worker->info[i].uuid, uuid, sizeof worker->info[i].uuid) == 0)
      return i;
  return -1;
}

// --- what the worker of shm says ---

static void on_message(void *arg, const void *bytes, size_t size) {
  const struct cuda_worker *worker = arg;
  if (worker->base.options.on_message)
    worker->base.options.on_message(worker->base.options.arg, bytes, size);
}

static void on_peer(void *arg, struct transport_peer *shm, int err, const char *why) {
  struct cuda_worker *worker = arg;
  struct cuda_peer *peer = shm->arg;
  if (peer->base.failed != 0 || peer->leaving)
    return;
  peer->base.failed = err;
  if (worker->base.options.on_peer)
    worker->base.options.on_peer(worker->base.options.arg, &peer->base, err, why);
}

// --- open and close ---

static void cuda_transport_close(struct transport_worker *base);

static int open_shm(struct cuda_worker *worker) {
  struct transport_options options = {.size = sizeof options,
                                      .on_message = on_message,
                                      .on_peer = on_peer,
                                      .arg = worker,
                                      .settings = worker->base.options.settings}; // there are none but shm's
  options.threads = worker->base.options.threads;
  options.owner = worker->base.options.owner;
  return transport_shm.open(&options, &worker->shm);
}

extern const struct transport transport_cuda;

static int cuda_transport_open(const struct transport_options *options, struct transport_worker **out) {
  const struct device_api *api;
  char why[DEVICE_WHY] = "";
  int rc = load(&api);
  if (rc != 0)
    return rc;
  struct cuda_worker *worker = calloc(1, sizeof *worker);
  if (!worker)
    return fail(WEFT_ERR_NOMEM, "no memory for a worker");
  worker->base = (struct transport_worker){
      .transport = &transport_cuda, .abilities = transport_cuda.abilities, .options = *options};
  worker->api = api;
  worker->last = &worker->first;
  rc = api->count(&worker->num_devices, why);
  if (worker->num_devices > CUDA_DEVICES)
    worker->num_devices = CUDA_DEVICES;
  for (int i = 0; rc == 0 && i < worker->num_devices; i++)
    rc = api->describe(i, &worker->info[i], why);
  rc = rc == 0 ? open_shm(worker) : device_fail(rc, "the transport cuda", why);
  worker->base.options.settings = NULL;
  worker->base.options.device = NULL;
  worker->base.options.owner = NULL;
  if (rc == 0)
    *out = &worker->base;
  else
    cuda_transport_close(&worker->base);
  return rc;
}

static void free_peer(struct cuda_worker *worker, struct cuda_peer *peer) {
  struct cuda_peer **link = &worker->peers;
  while (peer->remotes)
    cuda_transport_release(&peer->remotes->base);
  if (peer->shm)
    worker->shm->transport->disconnect(peer->shm);
  while (*link != peer)
    link = &(*link)->next;
  *link = peer->next;
  free(peer);
}

// What has been asked to leave, and has nothing under way any more.
static void free_leaving(struct cuda_worker *worker) {
  for (struct cuda_peer *peer = worker->peers, *next; peer; peer = next) {
    next = peer->next;
    if (peer->leaving && !cuda_requests_of(worker, peer))
      free_peer(worker, peer);
  }
}

static uint32_t progress(struct transport_worker *base) {
  struct cuda_worker *worker = worker_of(base);
  uint32_t steps = worker->shm->transport->progress(worker->shm);
  steps += cuda_requests_advance(worker);
  free_leaving(worker);
  return steps;
}

static void cuda_transport_close(struct transport_worker *base) {
  struct cuda_worker *worker = worker_of(base);
  uint64_t until = clock_ns() + CLOSE_NS;
  if (worker->shm)
    cuda_requests_cancel(worker, NULL);
  while (worker->shm && cuda_requests_of(worker, NULL) && clock_ns() < until)
    progress(base);
  cuda_requests_leave(worker);
  while (worker->peers)
    free_peer(worker, worker->peers);
  while (worker->regions)
    cuda_transport_unreg(&worker->regions->base);
  if (worker->shm)
    worker->shm->transport->close(worker->shm);
  for (int i = 0; i < worker->num_devices; i++) {
    if (worker->streams[i])
      worker->api->stream_close(worker->devices[i], worker->streams[i]);
    if (worker->devices[i])
      worker->api->close(worker->devices[i]);
  }
  free(worker);
}

// --- peers ---

static int address(struct transport_worker *base, void *bytes, size_t *size) {
  struct cuda_worker *worker = worker_of(base);
  uint8_t inner[TRANSPORT_MAX_ADDRESS];
  size_t inner_size = sizeof inner;
  int rc = worker->shm->transport->address(worker->shm, inner, &inner_size);
  if (rc != 0)
    return rc;
  struct wire_writer writer = card_begin(&address_card, bytes, *size);
  wire_put(&writer, inner, inner_size);
  return card_end(&address_card, &writer, size);
}

static int cuda_transport_connect(struct transport_worker *base, const void *bytes, size_t size, const char *owner,
                                  struct transport_peer **out) {
  struct cuda_worker *worker = worker_of(base);
  struct wire_reader reader;
  int rc = card_read(&address_card, bytes, size, &reader);
  if (rc != 0)
    return rc;
  struct cuda_peer *peer = calloc(1, sizeof *peer);
  if (!peer)
    return fail(WEFT_ERR_NOMEM, "no memory for a peer");
  peer->base.worker = base;
  rc = worker->shm->transport->connect(worker->shm, reader.bytes + reader.at, wire_left(&reader), owner, &peer->shm);
  if (rc != 0) {
    free(peer);
    return rc;
  }
  peer->shm->arg = peer;
  peer->next = worker->peers;
  worker->peers = peer;
  *out = &peer->base;
  return 0;
}

static void cuda_transport_disconnect(struct transport_peer *base) {
  struct cuda_peer *peer = (struct cuda_peer *)base;
  struct cuda_worker *worker = worker_of(base->worker);
  peer->leaving = true;
  cuda_requests_cancel(worker, peer);
  free_leaving(worker);
}

// --- sleeping ---

static int fd(struct transport_worker *base) {
  struct cuda_worker *worker = worker_of(base);
  return worker->shm->transport->fd(worker->shm);
}

// A GPU wakes nobody: while it copies, the caller looks.
static int arm(struct transport_worker *base) {
  struct cuda_worker *worker = worker_of(base);
  if (worker->first)
    return WEFT_ERR_BUSY;
  return worker->shm->transport->arm ? worker->shm->transport->arm(worker->shm) : 0;
}

static void cost(struct transport_worker *worker, const struct transport_peer *peer, struct transport_cost *cost) {
  (void)worker, (void)peer;
  *cost = (struct transport_cost){.latency_ns = LATENCY_NS, .piece_ns = PIECE_NS, .bytes_per_s = NVLINK_BYTES_PER_S};
}

const struct transport transport_cuda = {
    .name = "cuda",
    .what = "GPU memory of this host, mapped: NVLink or PCIe",
    .abilities = {.local_kinds = 1 << WEFT_MEMORY_HOST | 1 << WEFT_MEMORY_CUDA,
                  .remote_kinds = 1 << WEFT_MEMORY_HOST | 1 << WEFT_MEMORY_CUDA,
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_TELLS_DEATH | TRANSPORT_MAPPED_ONLY},
    .probe = probe,
    .open = cuda_transport_open,
    .close = cuda_transport_close,
    .address = address,
    .reg = cuda_transport_reg,
    .unreg = cuda_transport_unreg,
    .pack = cuda_transport_pack,
    .connect = cuda_transport_connect,
    .disconnect = cuda_transport_disconnect,
    .import = cuda_transport_import,
    .release = cuda_transport_release,
    .prepare = cuda_transport_prepare,
    .unprepare = cuda_transport_unprepare,
    .post = cuda_transport_post,
    .cancel = cuda_transport_cancel,
    .progress = progress,
    .fd = fd,
    .arm = arm,
    .cost = cost,
};
