// The agent's loop: signals, children, news from the store, the lease, and what follows from them.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"
#include "run/node/node.h"

enum {
  ASK_MS = 1000,  // a child that was asked to end is killed after so long
  RETRY_MS = 100, // between two tries of what the store did not answer
  KILL_MS = 5000, // and is gone after so long, whatever it was in
};

static void print_line(struct agent *agent, const char *text) {
  progress_hide(&agent->progress);
  FILE *out = agent->config.json ? stderr : stdout; // standard output is the results' then
  fprintf(out, "%s\n", text);
  fflush(out);
}

static void keep_event(struct agent *agent, const struct run_child *child, json_t *message) {
  char kind[64];
  snprintf(kind, sizeof kind, "%s", json_string_value(json_object_get(message, "event")));
  json_object_del(message, "kind");
  json_object_del(message, "event");
  json_object_set_new(message, "host", json_string(agent->host));
  json_object_set_new(message, "rank", json_integer(child->rank));
  run_directory_event(&agent->directory, kind, json_incref(message));
}

static void on_message(void *arg, struct run_child *child, json_t *message) {
  struct agent *agent = arg;
  const char *kind = json_string_value(json_object_get(message, "kind"));
  if (!kind)
    return;
  if (strcmp(kind, "line") == 0) {
    const char *text = json_string_value(json_object_get(message, "text"));
    if (text)
      print_line(agent, text);
  } else if (strcmp(kind, "event") == 0) {
    keep_event(agent, child, message);
  } else if (strcmp(kind, "kill") == 0) {
    child->kill_ns = (uint64_t)json_integer_value(json_object_get(message, "time_ns"));
  } else if (strcmp(kind, "log_lost") == 0) {
    char name[32];
    snprintf(name, sizeof name, "rank-%d.log", child->rank);
    run_directory_lost(&agent->directory, name, (int)json_integer_value(json_object_get(message, "error")));
  } else if (strcmp(kind, "progress") == 0) {
    progress_show(&agent->progress, false, "phase %u (%u of %u)  rank %d  %s %lld/%lld", agent->current,
                  agent->current + 1, agent->plan->num_phases, child->rank,
                  json_string_value(json_object_get(message, "step")),
                  (long long)json_integer_value(json_object_get(message, "done")),
                  (long long)json_integer_value(json_object_get(message, "of")));
  }
}

// Polls: [0] signals, [1] news, then for each child its pidfd and its messages.
static int wait_for_something(struct agent *agent, struct pollfd *fds, uint64_t deadline) {
  fds[0] = (struct pollfd){.fd = agent->signal_fd, .events = POLLIN};
  fds[1] = (struct pollfd){.fd = run_inbox_fd(agent->inbox), .events = POLLIN};
  for (uint32_t i = 0; i < agent->slots; i++) {
    const struct run_child *child = &agent->children[i];
    fds[2 + 2 * i] = (struct pollfd){.fd = child->pid ? child->pid_fd : -1, .events = POLLIN};
    fds[3 + 2 * i] = (struct pollfd){.fd = child->pid ? child->message_fd : -1, .events = POLLIN};
  }
  if (poll(fds, 2 + 2 * (nfds_t)agent->slots, clock_left_ms(deadline)) < 0 && errno != EINTR)
    return fail_errno(errno, "cannot wait for the rank processes");
  return 0;
}

static void take_signal(struct agent *agent) {
  struct signalfd_siginfo info;
  if (read(agent->signal_fd, &info, sizeof info) == sizeof info)
    agent->signal_number = (int)info.ssi_signo;
}

static void serve_children(struct agent *agent) {
  for (uint32_t i = 0; i < agent->slots; i++) {
    struct run_child *child = &agent->children[i];
    if (child->pid == 0)
      continue;
    bool has_ended = run_child_has_ended(child); // asked first: what it said last is then there to be read
    run_child_read(child, on_message, agent);
    int status = 0;
    if (has_ended && run_child_reap(child, &status))
      agent_tell_exit(agent, child, status);
  }
}

void agent_retry(struct agent *agent) {
  uint64_t retry_ns = clock_deadline_ms(RETRY_MS);
  agent->retry_ns = retry_ns < agent->retry_ns ? retry_ns : agent->retry_ns;
}

// The store answers again. What ran out meanwhile has the time of a lease to come back.
static void hear_store(struct agent *agent) {
  if (agent->silent_ns)
    agent->wary_ns = clock_deadline_ms(RUN_LEASE_TTL_S * 1000);
  agent->silent_ns = 0;
}

// An agent's key is gone. Returns whether that may be the store's fault, in which case it is looked after.
static bool may_come_back(struct agent *agent, const char *key) {
  char own[RUN_KEY_SIZE];
  run_key(own, &agent->keys, "agent/%u", agent->id);
  bool may = strcmp(key, own) == 0 || agent_restore_is_on(agent) || agent->silent_ns || !clock_passed(agent->wary_ns);
  if (may)
    agent_restore_begin(agent);
  return may;
}

// What both the lead and a follower need to know.
static int take_news(struct agent *agent, const struct run_news *news) {
  uint32_t phase, rank;
  switch (news->kind) {
  case WEFT_STORE_EVENT_LOST:
    if (agent->silent_ns == 0)
      agent->silent_ns = clock_ns();
    return 0;
  case WEFT_STORE_EVENT_RESUMED: // a new store that has come as far as the old one looks like it to the watch
    if (agent->silent_ns)
      agent_restore_begin(agent);
    hear_store(agent);
    return 0;
  case WEFT_STORE_EVENT_RESET:
    hear_store(agent);
    agent_restore_begin(agent);
    return 0;
  case WEFT_STORE_EVENT_DELETE:
    if (run_key_tail(&agent->keys, news->key, "agent") && may_come_back(agent, news->key))
      break;
    if (!agent->leads && run_key_is(&agent->keys, news->key, "agent/0"))
      return fail(WEFT_ERR_PEER_LOST, "the lead of job '%s' is gone", agent->job);
    break;
  case WEFT_STORE_EVENT_PUT:
    if (run_key_is(&agent->keys, news->key, "current")) {
      uint32_t current = (uint32_t)json_integer_value(news->json);
      if (!agent->begun || current > agent->current)
        agent->current = current;
      agent->begun = true;
    } else if (run_key_is(&agent->keys, news->key, "restored")) {
      agent->restore.done_lease = (int64_t)json_integer_value(news->json);
    } else if (run_key_is(&agent->keys, news->key, "end") && !agent->leads) {
      const char *error = json_string_value(json_object_get(news->json, "error"));
      agent->status = (int)json_integer_value(json_object_get(news->json, "status"));
      snprintf(agent->end_error, sizeof agent->end_error, "%s", error ? error : "");
      agent->over = true;
    } else if (run_key_pair(&agent->keys, news->key, "launch", &phase, &rank)) {
      struct launch *launch = agent_launch_of(agent, phase, (int32_t)rank);
      if (launch) {
        launch->claimed = true;
        launch->agent = (uint32_t)json_integer_value(json_object_get(news->json, "agent"));
      }
    }
    break;
  }
  return agent->leads ? lead_take(agent, news) : 0;
}

static int take_all_news(struct agent *agent) {
  struct run_news news;
  int err = 0;
  while (!err && !agent->over && run_inbox_take(agent->inbox, &news)) {
    err = take_news(agent, &news);
    run_news_free(&news);
  }
  return err;
}

// A store inside the lead ends with it; another one may be started again.
uint32_t agent_patience_s(const struct agent *agent) {
  return agent->config.lead ? RUN_LEASE_TTL_S : agent->config.startup_timeout_s;
}

// Renews the lease. A store that does not answer ends the run in the end, but not the operations that go on meanwhile.
static int keep_alive(struct agent *agent) {
  uint32_t limit_s = agent_patience_s(agent);
  if (!clock_passed(agent->renew_ns))
    return 0;
  int err = agent->own_lease ? weft_store_lease_keepalive(agent->store, agent->own_lease, NULL) : WEFT_ERR_NOT_FOUND;
  if (!err || err == WEFT_ERR_NOT_FOUND)
    hear_store(agent);
  else if (agent->silent_ns == 0)
    agent->silent_ns = clock_ns();
  if (err == WEFT_ERR_NOT_FOUND)
    agent_restore_begin(agent);
  agent->renew_ns = clock_deadline_ms(err ? RETRY_MS : RUN_RENEW_MS);
  if (agent->silent_ns && clock_ns() - agent->silent_ns > limit_s * UINT64_C(1000000000))
    return fail_context(err ? err : WEFT_ERR_UNREACHABLE, "the store %s has not answered for %u s", agent->endpoints,
                        limit_s);
  return 0;
}

// When there is something to do even if nothing happens.
static uint64_t next_deadline(const struct agent *agent) {
  uint64_t deadline = agent->leads ? lead_deadline(agent) : CLOCK_NEVER;
  deadline = agent->retry_ns < deadline ? agent->retry_ns : deadline;
  return agent->renew_ns < deadline ? agent->renew_ns : deadline;
}

static int turn(struct agent *agent, struct pollfd *fds) {
  int err = wait_for_something(agent, fds, next_deadline(agent));
  agent->retry_ns = CLOCK_NEVER;
  if (!err && fds[0].revents)
    take_signal(agent);
  if (!err && agent->signal_number)
    return fail(WEFT_ERR_CANCELED, "interrupted by SIG%s", sigabbrev_np(agent->signal_number));
  if (err)
    return err;
  serve_children(agent);
  err = take_all_news(agent);
  if (agent->over) // the lead's word is the last
    return err;
  if (!err)
    err = keep_alive(agent);
  if (!err)
    err = agent_restore_step(agent);
  if (!err && agent->leads)
    err = lead_step(agent);
  if (!err && !agent->over && agent->begun && agent->current < agent->plan->num_phases)
    err = agent_launch(agent, agent->current);
  return err;
}

int agent_run(struct agent *agent) {
  struct pollfd *fds = calloc(2 + 2 * (size_t)agent->slots, sizeof *fds);
  int err = fds ? 0 : fail(WEFT_ERR_NOMEM, "no memory to watch %u ranks", agent->slots);
  while (!err && !agent->over)
    err = turn(agent, fds);
  free(fds);
  return err;
}

static void signal_children(struct agent *agent, int signal_number) {
  for (uint32_t i = 0; i < agent->slots; i++)
    run_child_signal(&agent->children[i], signal_number);
}

// Waits for the end of every child; false: some are still there at the deadline.
static bool reap_children(struct agent *agent, uint64_t deadline) {
  int status;
  for (uint32_t i = 0; i < agent->slots; i++) {
    struct run_child *child = &agent->children[i];
    while (child->pid != 0) {
      run_child_read(child, on_message, agent);
      struct pollfd fds[2] = {{.fd = child->pid_fd, .events = POLLIN}, {.fd = child->message_fd, .events = POLLIN}};
      if (run_child_reap(child, &status))
        break;
      if (clock_passed(deadline))
        return false;
      poll(fds, 2, clock_left_ms(deadline));
    }
  }
  return true;
}

void agent_end_children(struct agent *agent) {
  if (!agent->children)
    return;
  signal_children(agent, SIGTERM);
  if (reap_children(agent, clock_deadline_ms(ASK_MS)))
    return;
  signal_children(agent, SIGKILL);
  reap_children(agent, clock_deadline_ms(KILL_MS));
}
