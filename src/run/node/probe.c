// Finds out which features of a run the library supports, before anything is started.
//
// A separate process opens a group of one rank, on a store inside the process, with the sizes, the mode and the memory
// of the run. It runs one operation of each form, since the library checks arguments in small groups as in large ones.
// The run leaves out a feature that the library refuses as UNSUPPORTED, and reports the library's reason. If the run
// itself needs the feature, that is an error. The process is separate because a node makes no context on a GPU.
#include "run/node/probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/process.h"
#include "base/time/clock.h"
#include "run/node/node.h"
#include "run/traffic/traffic.h"

enum { TOKENS = 4, MS_PER_S = 1000, END_MS = 10000 };

const char *const node_feature_names[RUN_NUM_FEATURES] = {
    [RUN_FEATURE_PER_EXPERT] = "per-expert rows",
    [RUN_FEATURE_RANK_MAJOR] = "rows by rank",
    [RUN_FEATURE_PACKED] = "packed rows",
    [RUN_FEATURE_ROUTES] = "kept routes",
    [RUN_FEATURE_BIASES] = "biases",
    [RUN_FEATURE_UNWEIGHTED] = "unweighted sums",
    [RUN_FEATURE_WEIGHTS_BACK] = "weights that go back",
};

// The results that the process writes to its pipe.
struct found {
  int err; // 0, or why the run is not possible
  char error[FAIL_DETAIL_SIZE];
  uint32_t left_out;
  struct node_probe probe;
};

struct group {
  struct run_config config; // few tokens
  struct buffer_home home;
  weft_store_t *store;
  weft_ep_t *ep;
  struct traffic *traffic;
};

static void close_group(struct group *group) {
  traffic_close(group->traffic);
  weft_ep_close(group->ep);
  weft_store_close(group->store);
  buffer_home_close(&group->home);
}

static int open_group(struct group *group, const struct node *node) {
  static const int32_t self = 0;
  const struct run_config *config = &node->config;
  struct weft_ep_options options = run_ep_options(config);
  int32_t gpu = run_gpus_of_slot(&node->gpus, 0);
  uint32_t wait_limit_ms = config->startup_timeout_s * MS_PER_S;
  *group = (struct group){.config = *config};
  group->config.num_tokens = config->num_tokens < TOKENS ? config->num_tokens : TOKENS;
  int err = buffer_home_open(&group->home, gpu);
  if (!err)
    err = weft_store_open_local(&group->store);
  options.store = group->store;
  options.rank = self;
  options.capacity = node->plan->capacity;
  options.founders = &self;
  options.num_founders = 1;
  options.device = gpu;
  if (!err && (err = weft_ep_open(&group->ep, &options, wait_limit_ms)) != 0)
    err = run_ep_open_failed(err);
  if (!err)
    err = weft_ep_activate(group->ep, wait_limit_ms);
  return err ? err : traffic_open(&group->traffic, group->ep, &group->config, &group->home, node->plan->capacity, 1);
}

static int operate(struct traffic *traffic, struct traffic_form form, enum traffic_way way) {
  struct traffic_op op;
  form.way = way;
  traffic_set_form(traffic, &form);
  return traffic_run(traffic, false, &op);
}

// Runs the operations that need a feature, in a layout that supports it.
static int show(struct group *group, enum run_feature feature) {
  struct run_config config = group->config;
  struct traffic_form form = {0};
  struct traffic *traffic = NULL;
  if (feature <= RUN_FEATURE_PACKED)
    config.layout = (enum weft_ep_layout)(WEFT_EP_PER_EXPERT + (feature - RUN_FEATURE_PER_EXPERT));
  if (feature == RUN_FEATURE_WEIGHTS_BACK)
    config.layout = WEFT_EP_RANK_MAJOR;
  if (feature == RUN_FEATURE_UNWEIGHTED && config.layout == WEFT_EP_RANK_MAJOR)
    config.layout = WEFT_EP_PER_EXPERT;
  form.zero_padding = feature == RUN_FEATURE_PACKED;
  form.biases = feature == RUN_FEATURE_BIASES ? 2 : 0;
  form.unweighted = feature == RUN_FEATURE_UNWEIGHTED;
  form.weights_back = feature == RUN_FEATURE_WEIGHTS_BACK;
  bool by_route = feature == RUN_FEATURE_ROUTES;
  int err = traffic_open_variant(&traffic, group->traffic, &config);
  if (!err)
    err = operate(traffic, form, by_route ? TRAFFIC_FILLING : TRAFFIC_ROUTED);
  if (!err && by_route)
    err = operate(traffic, form, TRAFFIC_KEPT);
  if (!err && by_route)
    err = operate(traffic, form, TRAFFIC_COMBINE_ROUTE);
  char why[FAIL_DETAIL_SIZE];
  snprintf(why, sizeof why, "%s", err ? weft_last_error() : "");
  traffic_close(traffic); // it may replace the error text
  return err ? fail(err, "%s", why) : 0;
}

// An operation that was refused stays open, so the next feature gets a new group.
static int ask(const struct node *node, struct found *found) {
  enum run_feature own = (enum run_feature)(RUN_FEATURE_PER_EXPERT + (node->config.layout - WEFT_EP_PER_EXPERT));
  bool all = node->config.mode == WEFT_EP_THROUGHPUT;
  struct group group;
  int err = open_group(&group, node);
  for (int i = 0; i < RUN_NUM_FEATURES && !err; i++) {
    enum run_feature feature = (enum run_feature)i;
    if (!all && feature != own)
      continue;
    err = show(&group, feature);
    if (err == WEFT_ERR_UNSUPPORTED && feature == own)
      err = fail_context(err, "--layout");
    if (err != WEFT_ERR_UNSUPPORTED || feature == own)
      continue;
    found->left_out |= 1u << feature;
    snprintf(found->probe.why[feature], NODE_PROBE_WHY, "%s", weft_last_error());
    close_group(&group);
    err = open_group(&group, node);
  }
  char error[FAIL_DETAIL_SIZE];
  snprintf(error, sizeof error, "%s", err ? weft_last_error() : "");
  close_group(&group);
  return err ? fail(err, "%s", error) : 0;
}

// With `auto` the run uses host memory if the library does not support the run's needs on GPUs.
static int ask_of_memory(struct node *node, struct found *found) {
  bool was_auto = node->config.memory == WEFT_EP_MEMORY_AUTO;
  int err = node_choose_memory(node);
  if (!err)
    err = ask(node, found);
  if (err != WEFT_ERR_UNSUPPORTED || !was_auto || node->config.memory != WEFT_EP_MEMORY_CUDA)
    return err;
  *found = (struct found){0};
  snprintf(found->probe.no_gpus, NODE_PROBE_WHY, "%s", weft_last_error());
  node->config.memory = WEFT_EP_MEMORY_HOST;
  node->gpus = (struct run_gpus){0};
  return ask(node, found);
}

static void be_probe(struct node *node, int out) {
  static struct found found;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  node->config.quiet = true; // the node itself reports its choice of memory
  found.err = ask_of_memory(node, &found);
  if (found.err)
    snprintf(found.error, sizeof found.error, "%s", weft_last_error());
  size_t sent = 0;
  while (sent < sizeof found) {
    ssize_t put = write(out, (const char *)&found + sent, sizeof found - sent);
    if (put < 0 && errno != EINTR)
      _exit(1);
    sent += put > 0 ? (size_t)put : 0;
  }
  _exit(0);
}

// Reads until all results have arrived, a signal arrives, or the deadline passes.
static int receive_results(struct node *node, int in, struct found *found, uint64_t deadline_ns) {
  size_t got = 0;
  while (got < sizeof *found) {
    struct pollfd ready[2] = {{.fd = in, .events = POLLIN}, {.fd = node->signal_fd, .events = POLLIN}};
    int ms = clock_left_ms(deadline_ns);
    if (ms <= 0)
      return fail(WEFT_ERR_TIMEOUT, "the process that tests what the library supports did not answer in time");
    if (poll(ready, 2, ms) <= 0)
      continue;
    int err = ready[1].revents ? node_pause(node, 0) : 0;
    if (err)
      return err;
    if (!ready[0].revents)
      continue;
    ssize_t more = read(in, (char *)found + got, sizeof *found - got);
    if (more < 0 && errno == EINTR)
      continue;
    if (more <= 0)
      return WEFT_ERR_SYSTEM; // the caller finds out how the process ended
    got += (size_t)more;
  }
  found->error[sizeof found->error - 1] = '\0';
  return 0;
}

static int await(struct node *node, pid_t pid, int in, struct found *found) {
  uint32_t wait_limit_s = node->config.startup_timeout_s;
  int status = 0, err = receive_results(node, in, found, clock_deadline_ms((uint64_t)wait_limit_s * 3 * MS_PER_S));
  bool ends = !err || err == WEFT_ERR_SYSTEM, ended = ends && process_reap(pid, &status, clock_deadline_ms(END_MS));
  if (!ended)
    process_end(pid);
  if (ends && !ended)
    return fail(WEFT_ERR_TIMEOUT,
                "the process that tests what the library supports has not ended for %d s: see 'weft doctor'",
                END_MS / MS_PER_S);
  if (err == WEFT_ERR_SYSTEM)
    err = fail(err, "the process that tests what the library supports ended without an answer, by %s %d",
               WIFSIGNALED(status) ? "signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return err;
}

int node_probe(struct node *node) {
  struct run_config *config = &node->config;
  int pipes[2];
  if (config->mode != WEFT_EP_THROUGHPUT && config->layout != WEFT_EP_PACKED)
    return 0;
  struct found *found = calloc(1, sizeof *found);
  if (!found)
    return fail(WEFT_ERR_NOMEM, "no memory to test what the library supports");
  fflush(NULL);
  int err = pipe(pipes) == 0 ? 0 : fail_errno(errno, "cannot make a pipe to test what the library supports");
  pid_t pid = err ? -1 : fork();
  if (pid == 0) {
    close(pipes[0]);
    be_probe(node, pipes[1]);
  }
  if (!err)
    close(pipes[1]);
  if (!err && pid < 0)
    err = fail_errno(errno, "cannot start a process to test what the library supports");
  if (!err)
    err = await(node, pid, pipes[0], found);
  if (pid != -1 || !err)
    close(pipes[0]);
  if (!err && found->err)
    err = fail(found->err, "%s", found->error);
  config->left_out = err ? 0 : found->left_out;
  if (!err)
    node->probe = found->probe;
  free(found);
  return err;
}
