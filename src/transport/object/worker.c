// The transport `object`: objects of an S3 store, read and written from and to host memory, over libcurl.
//
// READ: adjacent pieces become one ranged GET, and long ranges several, which run at once. All parts of an object in
// one request come from one version of it (If-Match with the first answer's ETag). WRITE: S3 cannot write a part of an
// object, so a request has to have all bytes of the object from 0 on, without a gap. The object is then put at once, or
// in parts in parallel. Either way the object changes only at the end, completely or not at all; a failed upload is
// aborted. Uploads are signed without a hash of their bytes: TLS, or without it TCP's checksum, protects them on the
// way.
//
// Settings: endpoint, region, access_key_id, secret_access_key, session_token, ca_file (else AWS_ENDPOINT_URL_S3 or
// AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN,
// AWS_CA_BUNDLE; without a key requests are not signed), style=path|virtual (path with an endpoint of one's own, and
// for a bucket whose name cannot be part of a host name), part_mib=5..5120 (8), parallel=1..256 (16), retries=0..100
// (5), backoff_ms (50, doubled each time up to 5000), connect_ms (5000), stall_s (10: a connection on which nothing
// moves for so long is given up), timeout_s (120: nothing is tried again after so long, and to begin or abort an upload
// takes no longer).
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/log.h"
#include "base/time/clock.h"
#include "transport/object/object.h"

extern const struct transport transport_object;

enum { CLOSE_MS = 1000 };

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void init_curl(void) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int probe(char *why, size_t cap) {
  pthread_once(&curl_once, init_curl);
  snprintf(why, cap, "%s", "");
  return 0;
}

static void version(char *text, size_t cap) {
  snprintf(text, cap, "%s", curl_version_info(CURLVERSION_NOW)->version);
}

static void free_worker(struct object_worker *worker) {
  object_loop_close(worker);
  while (worker->aborts) {
    struct object_abort *one = worker->aborts;
    worker->aborts = one->next;
    log_warn("object: an upload stays unfinished at %s", one->object_url);
    free(one->object_url);
    free(one);
  }
  object_settings_free(&worker->set);
  free(worker);
}

static int open_worker(const struct transport_options *options, struct transport_worker **out) {
  char why[160];
  int rc = probe(why, sizeof why);
  if (rc < 0)
    return rc;
  struct object_worker *worker = calloc(1, sizeof *worker);
  if (!worker)
    return fail(WEFT_ERR_NOMEM, "out of memory for the transport object");
  worker->epoll_fd = worker->timer_fd = -1;
  storage_worker_init(&worker->base, &transport_object, options);
  rc = object_settings_read(&worker->set, options);
  if (rc == 0)
    rc = object_loop_open(worker);
  if (rc < 0) {
    free_worker(worker);
    return rc;
  }
  if (!worker->set.key)
    log_info("object: no AWS_ACCESS_KEY_ID: requests are not signed");
  *out = &worker->base.base;
  return 0;
}

static uint32_t progress(struct transport_worker *base) {
  struct object_worker *worker = (struct object_worker *)base;
  uint32_t count = object_loop_run(worker);
  object_issue(worker);
  return count + storage_worker_complete(&worker->base, object_region_drop);
}

static int arm(struct transport_worker *base) {
  struct object_worker *worker = (struct object_worker *)base;
  if (!link_empty(&worker->base.ended) || object_can_issue(worker))
    return WEFT_ERR_BUSY;
  return object_loop_arm(worker);
}

static int get_fd(struct transport_worker *base) {
  return ((struct object_worker *)base)->epoll_fd;
}

// Uploads that were begun are aborted, for which the server has a second.
static void close_worker(struct transport_worker *base) {
  struct object_worker *worker = (struct object_worker *)base;
  if (!worker)
    return;
  worker->base.closing = true;
  for (struct link *link = worker->base.active.next, *next; link != &worker->base.active; link = next) {
    next = link->next;
    object_cancel(LINK_OF(link, struct storage_request, link)->request);
  }
  uint64_t deadline = clock_deadline_ms(CLOSE_MS);
  while (storage_worker_complete(&worker->base, object_region_drop) > 0)
    ;
  while ((worker->aborts || worker->busy > 0) && !clock_passed(deadline)) {
    if (progress(base) == 0 && arm(base) == 0)
      poll(&(struct pollfd){.fd = worker->epoll_fd, .events = POLLIN}, 1, clock_left_ms(deadline));
  }
  storage_worker_clear(&worker->base, object_region_drop);
  free_worker(worker);
}

static void disconnect(struct transport_peer *peer) {
  storage_disconnect(peer, object_cancel, object_region_drop);
}

// A store of the same region.
static void cost(struct transport_worker *base, const struct transport_peer *peer, struct transport_cost *out) {
  (void)base, (void)peer;
  *out = (struct transport_cost){.latency_ns = 20000000, .piece_ns = 1000000, .bytes_per_s = 1000000000};
}

const struct transport transport_object = {
    .name = "object",
    .what = "objects of an S3 store, by libcurl",
    .abilities = {.local_kinds = 1u << WEFT_MEMORY_HOST,
                  .remote_kinds = 1u << WEFT_MEMORY_OBJECT,
                  .flags = TRANSPORT_MESSAGES | TRANSPORT_ONE_SIDED | TRANSPORT_SELF_ONLY},
    .probe = probe,
    .version = version,
    .query = object_query,
    .open = open_worker,
    .close = close_worker,
    .address = storage_address,
    .reg = object_reg,
    .unreg = object_unreg,
    .pack = storage_pack,
    .connect = storage_connect,
    .disconnect = disconnect,
    .import = storage_import,
    .release = object_release,
    .prepare = object_prepare,
    .unprepare = object_unprepare,
    .post = object_post,
    .cancel = object_cancel,
    .progress = progress,
    .fd = get_fd,
    .arm = arm,
    .cost = cost,
};
