// Workers of the transport ucx: opening, progress and closing.
#include "transport/ucx/ucx.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/text/settings.h"
#include "base/thread.h"
#include "base/time/clock.h"

// UCX prints errors of its own, such as a peer that does not answer any more, to the standard output of the process.
// The caller gets them as error codes, so they are printed only if UCX_LOG_LEVEL is set.
static ucs_log_func_rc_t keep_silent(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                     const ucs_log_component_config_t *component, const char *message, va_list args) {
  (void)file, (void)line, (void)function, (void)component, (void)message, (void)args;
  return level == UCS_LOG_LEVEL_FATAL ? UCS_LOG_FUNC_RC_CONTINUE : UCS_LOG_FUNC_RC_STOP;
}

static void silence(void) {
  if (!getenv("UCX_LOG_LEVEL"))
    ucs_log_push_handler(keep_silent);
}

// `reaches`: whether UCX itself is to reach memory. A worker that allows this also accepts UCX's own messages for it,
// which may name any address, so it is allowed only where it is useful.
static int make_context(const struct transport_options *options, ucp_context_h *context, bool *reaches) {
  ucp_params_t params = {
      .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
      .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
      .mt_workers_shared = 0,
      .name = "weft",
  };
  ucp_config_t *config;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, silence);
  int rc = ucx_config(options, &config);
  if (rc != 0)
    return rc;
  *reaches = ucx_may_reach(options, config);
  if (*reaches)
    params.features |= UCP_FEATURE_RMA;
  sigset_t before;
  thread_block_signals(&before); // UCX starts a thread
  ucs_status_t status = ucp_init(&params, config, context);
  thread_restore_signals(&before);
  ucp_config_release(config);
  return status == UCS_OK ? 0 : ucx_fail(status, "UCX cannot start (UCX_TLS and UCX_NET_DEVICES choose what it uses)");
}

static int probe(char *why, size_t cap) {
  struct transport_options options = {.size = sizeof options};
  ucp_context_h context;
  bool reaches;
  int rc = make_context(&options, &context, &reaches);
  if (rc != 0) {
    snprintf(why, cap, "%s", weft_last_error());
    return WEFT_ERR_UNSUPPORTED;
  }
  ucp_cleanup(context);
  return 0;
}

static ucs_status_t received(void *arg, const void *header, size_t header_size, void *data, size_t size,
                             const ucp_am_recv_param_t *param) {
  struct flow_worker *worker = &((struct ucx_worker *)arg)->flow;
  (void)header, (void)header_size;
  if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV || size > TRANSPORT_MAX_MESSAGE)
    return UCS_OK; // Weft sends messages eagerly, and no longer ones
  worker->events++;
  if (worker->base.options.on_message)
    worker->base.options.on_message(worker->base.options.arg, data, size);
  return UCS_OK;
}

static ucs_status_t ignore(void *arg, const void *header, size_t header_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param) {
  (void)arg, (void)header, (void)header_length, (void)data, (void)length, (void)param;
  return UCS_OK;
}

// Every number that a message can have gets a handler: for a number without a handler, UCX (seen in 1.13, 1.14 and
// 1.18) calls whatever its table has there, so that everybody who reaches its port could end the process. The largest
// number is set first, so that the table is allocated only once, with 1.5 MiB.
static ucs_status_t ignore_all_numbers(ucp_worker_h worker) {
  ucs_status_t status = UCS_OK;
  for (unsigned id = UINT16_MAX + 1; id-- > 0 && status == UCS_OK;) {
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = id, .cb = ignore};
    status = ucp_worker_set_am_recv_handler(worker, &handler);
  }
  return status;
}

static ucs_status_t handle_messages(struct ucx_worker *worker) {
  static const struct {
    enum ucx_id id;
    ucp_am_recv_callback_t call;
  } handlers[] = {{UCX_MESSAGE, received},     {UCX_WRITE, ucx_on_write}, {UCX_READ, ucx_on_read},
                  {UCX_ANSWER, ucx_on_answer}, {UCX_HELLO, ucx_on_hello}, {UCX_WELCOME, ucx_on_welcome}};
  ucs_status_t status = UCS_OK;
  for (size_t i = 0; i < sizeof handlers / sizeof *handlers && status == UCS_OK; i++) {
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = handlers[i].id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb = handlers[i].call,
        .arg = worker,
    };
    status = ucp_worker_set_am_recv_handler(worker->worker, &handler);
  }
  return status;
}

static int make_worker(struct ucx_worker *worker, bool threads) {
  ucp_worker_params_t params = {
      .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
      .thread_mode = threads ? UCS_THREAD_MODE_SERIALIZED : UCS_THREAD_MODE_SINGLE,
  };
  ucs_status_t status = ucp_worker_create(worker->context, &params, &worker->worker);
  if (status != UCS_OK)
    return ucx_fail(status, "UCX makes no worker");
  status = ignore_all_numbers(worker->worker);
  if (status == UCS_OK)
    status = handle_messages(worker);
  if (status == UCS_OK)
    status = ucp_worker_get_address(worker->worker, &worker->address, &worker->address_size);
  if (status != UCS_OK)
    return ucx_fail(status, "UCX takes no messages");
  int rc = ucx_address_learn(worker->address, worker->address_size, &worker->sizes);
  if (rc != 0)
    return fail_context(rc, "this worker's own address");
  if (ucp_worker_get_efd(worker->worker, &worker->fd) != UCS_OK)
    worker->fd = -1; // some of its transports have no descriptor: poll
  return 0;
}

// Queries UCX's request size and memory types.
static int ask(struct ucx_worker *worker) {
  ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE | UCP_ATTR_FIELD_MEMORY_TYPES};
  ucs_status_t status = ucp_context_query(worker->context, &attr);
  if (status != UCS_OK)
    return ucx_fail(status, "UCX does not describe itself");
  worker->request_size = attr.request_size;
  worker->cuda = attr.memory_types >> UCS_MEMORY_TYPE_CUDA & 1;
  worker->flow.wire = (struct flow_wire){
      .op_size = ucx_op_size(worker),
      .max_operation = FLOW_CHUNK,
      .move = ucx_move,
      .settle = ucx_settle,
      .send = ucx_send,
      .sever = ucx_sever,
      .part = ucx_part,
      .free_remote = ucx_free_remote,
  };
  return 0;
}

static void free_worker(struct ucx_worker *worker) {
  if (worker->address)
    ucp_worker_release_address(worker->worker, worker->address);
  if (worker->worker)
    ucp_worker_destroy(worker->worker);
  if (worker->context)
    ucp_cleanup(worker->context);
  ucx_serve_close(worker);
  ucx_session_close(worker);
  ucx_access_close(worker);
  ucx_gpus_close(worker);
  free(worker);
}

static int serve_setting(const char *const *settings) {
  const char *value = settings_value(settings, "serve");
  return !value || strcmp(value, "auto") == 0 ? -1 : strcmp(value, "on") == 0;
}

static int open_worker(const struct transport_options *options, struct transport_worker **made) {
  struct ucx_worker *worker = calloc(1, sizeof *worker);
  if (!worker)
    return fail(WEFT_ERR_NOMEM, "no memory for a worker");
  flow_worker_init(&worker->flow, &transport_ucx, options);
  worker->fd = -1;
  worker->serve = serve_setting(options->settings);
  worker->id = random_id();
  bool reaches = false;
  int rc = make_context(options, &worker->context, &reaches);
  if (!reaches)
    worker->serve = 1;
  if (rc == 0)
    rc = ask(worker);
  if (rc == 0)
    rc = make_worker(worker, options->threads);
  if (rc == 0)
    rc = ucx_access_open(worker);
  if (rc == 0)
    ucx_gpus_open(worker);
  if (rc != 0) {
    free_worker(worker);
    return rc;
  }
  *made = &worker->flow.base;
  return 0;
}

static uint32_t progress_ucx(struct ucx_worker *worker) {
  worker->driving = true;
  uint32_t events = ucp_worker_progress(worker->worker);
  worker->driving = false;
  return events;
}

static bool all_parted(const struct flow_worker *flow) {
  bool parted = true;
  for (struct link *link = flow->peers.next; link != &flow->peers; link = link->next)
    parted &= ucx_part(LINK_OF(link, struct flow_peer, peers));
  return parted;
}

static void drive(struct ucx_worker *worker, uint64_t ms, bool (*until)(const struct flow_worker *)) {
  uint64_t deadline = clock_deadline_ms(ms);
  while (!until(&worker->flow) && !clock_passed(deadline))
    if (progress_ucx(worker) == 0 && ucp_worker_arm(worker->worker) == UCS_OK)
      poll(&(struct pollfd){.fd = worker->fd, .events = POLLIN}, 1, 1); // a peer that is stopped costs no processor
}

// First waits for sent messages to arrive, if nothing is stuck; then closes all endpoints by force.
static void close_worker(struct transport_worker *base) {
  struct ucx_worker *worker = (struct ucx_worker *)base;
  struct flow_worker *flow = &worker->flow;
  flow_stop(flow);
  if (flow_idle(flow))
    drive(worker, FLOW_CLOSE_MS / 5, all_parted);
  for (struct link *link = flow->peers.next; link != &flow->peers; link = link->next)
    ucx_sever(LINK_OF(link, struct flow_peer, peers));
  drive(worker, FLOW_CLOSE_MS / 2, flow_idle);
  drive(worker, FLOW_CLOSE_MS / 5, all_parted);
  flow_end(flow);
  while (!link_empty(&flow->regions))
    ucx_unreg(&LINK_OF(flow->regions.next, struct flow_region, regions)->base);
  free_worker(worker);
}

static uint32_t progress(struct transport_worker *base) {
  struct ucx_worker *worker = (struct ucx_worker *)base;
  uint32_t events = progress_ucx(worker);
  if (worker->num_again > 0)
    events += ucx_again(worker);
  return events + flow_progress(&worker->flow);
}

static int worker_fd(struct transport_worker *base) {
  return ((struct ucx_worker *)base)->fd;
}

static int arm(struct transport_worker *base) {
  struct ucx_worker *worker = (struct ucx_worker *)base;
  if (flow_busy(&worker->flow) || worker->num_again > 0)
    return WEFT_ERR_BUSY;
  ucs_status_t status = ucp_worker_arm(worker->worker);
  if (status == UCS_ERR_BUSY)
    return WEFT_ERR_BUSY;
  return status == UCS_OK ? 0 : ucx_fail(status, "UCX cannot arm its descriptor");
}

static double seconds_of(ucp_ep_h ep, size_t bytes) {
  ucp_ep_evaluate_perf_param_t param = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE, .message_size = bytes};
  ucp_ep_evaluate_perf_attr_t attr = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};
  return ucp_ep_evaluate_perf(ep, &param, &attr) == UCS_OK ? attr.estimated_time : 0;
}

enum { GPU_PIECE_NS = 8000 }; // a copy between a GPU and host memory, and the wait for it

// For an endpoint, UCX's estimate from the speed of the link. If a virtual link reports no speed, UCX assumes the
// slowest that ever existed, so there is a minimum. In general: the values of TCP over a good Ethernet.
static void cost(struct transport_worker *base, const struct transport_peer *peer, struct transport_cost *cost) {
  (void)base;
  *cost = (struct transport_cost){
      .latency_ns = 10000, .piece_ns = 1000, .bytes_per_s = 3000000000, .gpu_piece_ns = GPU_PIECE_NS};
  const struct ucx_peer *one = (const struct ucx_peer *)peer;
  if (!one || !one->ep)
    return;
  enum { LARGE = 16 << 20, LEAST_RATE = 1000000000, HOST_NS = 600 };
  const uint64_t HOST_RATE = UINT64_C(8000000000);
  double small = seconds_of(one->ep, 8), large = seconds_of(one->ep, LARGE);
  if (small <= 0 || large <= small)
    return;
  cost->latency_ns = (uint64_t)(small * 1e9) + 1;
  cost->piece_ns = cost->latency_ns / 10 + 1;
  double rate = LARGE / (large - small);
  cost->bytes_per_s = rate > LEAST_RATE ? (uint64_t)rate : LEAST_RATE;
  // Faster than any network: shared memory, of which the estimate leaves out the flush.
  if (cost->latency_ns < HOST_NS)
    cost->latency_ns = HOST_NS;
  // Where accesses are served, processors copy, whatever UCX could do itself (with CUDA, by NVLink).
  if (!one->direct && cost->bytes_per_s > HOST_RATE)
    cost->bytes_per_s = HOST_RATE;
}

static void version(char *text, size_t cap) {
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  snprintf(text, cap, "%u.%u.%u", major, minor, release);
}

const struct transport transport_ucx = {
    .name = "ucx",
    .what = "RDMA through UCX; its TCP and shared memory where named",
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
    .address = ucx_address,
    .reg = ucx_reg,
    .unreg = ucx_unreg,
    .pack = ucx_pack,
    .connect = ucx_connect,
    .disconnect = flow_disconnect,
    .fence = ucx_fence,
    .import = ucx_import,
    .release = flow_release,
    .prepare = flow_prepare,
    .unprepare = flow_unprepare,
    .post = flow_post,
    .cancel = flow_cancel,
    .progress = progress,
    .fd = worker_fd,
    .arm = arm,
    .uses = ucx_uses,
    .cost = cost,
};
