// Workers of the transport cuda: opening, progress and closing.
#include "transport/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/time/clock.h"

enum {
  LATENCY_NS = 7500, // a copy of few bytes, with its launch and the look at its word
  PIECE_NS = 30,     // of a kernel's many
};
// Time limit of a close for copies that run on a GPU. They cannot be stopped, and use memory that the close gives back.
// Only a broken device takes so long.
#define CLOSE_NS           UINT64_C(20000000000)
#define NVLINK_BYTES_PER_S UINT64_C(350000000000)

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

// --- callbacks of the worker of shm ---

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
                                      .settings = worker->base.options.settings}; // all of them are shm's
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

static uint32_t progress(struct transport_worker *base) {
  struct cuda_worker *worker = worker_of(base);
  uint32_t steps = worker->shm->transport->progress(worker->shm);
  steps += cuda_requests_advance(worker);
  cuda_peers_free_leaving(worker);
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
    cuda_peer_free(worker, worker->peers);
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

// --- sleeping ---

static int fd(struct transport_worker *base) {
  struct cuda_worker *worker = worker_of(base);
  return worker->shm->transport->fd(worker->shm);
}

// A GPU signals no descriptor: while it copies, the caller has to poll.
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
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_REPORTS_DEATH | TRANSPORT_MAPPED_ONLY},
    .probe = probe,
    .open = cuda_transport_open,
    .close = cuda_transport_close,
    .address = cuda_transport_address,
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
