// Signals belong to the program: no thread of Weft, or of a library that it uses, receives one.
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "cmocka_all.h"

enum { SOON_MS = 20000 };

#define TOKEN "a-token-of-sixteen-or-more"

// The set of blocked signals of a thread, a bit for each, from its file in /proc.
static uint64_t blocked(const char *thread, char name[64]) {
  char path[300], line[256];
  uint64_t set = 0;
  snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
  FILE *file = fopen(path, "re");
  if (!file)
    return UINT64_MAX; // it has ended
  name[0] = '\0';
  while (fgets(line, sizeof line, file)) {
    sscanf(line, "Name: %63[^\n]", name);
    if (sscanf(line, "SigBlk: %" SCNx64, &set) == 1)
      break;
  }
  fclose(file);
  return set;
}

// Every thread but this one; returns how many there are.
static int check_threads(void) {
  static const int ours[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF};
  char name[64], self[16];
  int count = 0;
  snprintf(self, sizeof self, "%d", (int)getpid());
  DIR *threads = opendir("/proc/self/task");
  assert_non_null(threads);
  for (struct dirent *entry; (entry = readdir(threads));) {
    if (entry->d_name[0] == '.' || strcmp(entry->d_name, self) == 0)
      continue;
    uint64_t set = blocked(entry->d_name, name);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
      if (!(set & UINT64_C(1) << (ours[i] - 1)))
        fail_msg("thread %s (%s) takes %s: it blocks %" PRIx64, entry->d_name, name, strsignal(ours[i]), set);
    count++;
  }
  closedir(threads);
  return count;
}

static void ignore_event(void *arg, const struct weft_store_event *event) {
  (void)event, (void)arg;
}

static void all_threads_block_signals(void **state) {
  (void)state;
  struct weft_store_server_options server_options = WEFT_STORE_SERVER_OPTIONS_INIT;
  weft_store_server_t *server;
  server_options.token = TOKEN;
  assert_int_equal(weft_store_server_start(&server, &server_options), 0);
  int threads = check_threads();

  struct weft_store_options store_options = WEFT_STORE_OPTIONS_INIT;
  weft_store_t *store;
  weft_store_watch_t *watch;
  store_options.endpoints = weft_store_server_url(server);
  store_options.token = TOKEN;
  assert_int_equal(weft_store_open(&store, &store_options), 0);
  assert_int_equal(weft_store_watch_open(store, "/x/", 0, ignore_event, NULL, &watch), 0);

  struct weft_ep_options ep_options = {.size = sizeof ep_options,
                                       .store = store,
                                       .prefix = "/weft/test/",
                                       .rank = 0,
                                       .capacity = 2,
                                       .hidden = 128,
                                       .max_tokens = 4,
                                       .topk = 2};
  weft_ep_t *ep;
  assert_int_equal(weft_ep_open(&ep, &ep_options, SOON_MS), 0);
  assert_int_equal(weft_ep_activate(ep, SOON_MS), 0);

  struct weft_agent_options agent_options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent;
  uint16_t port = 0;
  agent_options.name = "one";
  agent_options.store = store;
  agent_options.prefix = "/weft/test/";
  agent_options.token = TOKEN;
  agent_options.listen = "127.0.0.1:0";
  assert_int_equal(weft_agent_open(&agent, &agent_options), 0);
  assert_int_equal(weft_agent_publish(agent, NULL, NULL, SOON_MS), 0);
  assert_int_equal(weft_agent_serve_metrics(agent, "127.0.0.1:0", &port), 0);

  int all = check_threads();
  print_message("%d threads of the server, %d of all\n", threads, all);
  assert_true(threads >= 2 && all >= threads + 6);

  weft_agent_close(agent);
  weft_ep_close(ep);
  weft_store_watch_close(watch);
  weft_store_close(store);
  weft_store_server_stop(server);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_threads_block_signals)};
  return cmocka_run_group_tests_name("ep_thread_signals", tests, NULL, NULL);
}
