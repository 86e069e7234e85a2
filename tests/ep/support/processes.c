// Ranks in processes that a test forks, kills and reaps, and what they share.
#include "ep/support/processes.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "transport/transport.h"

enum { DEADLINE_MS = 120000, URL_SIZE = 128 };

void *processes_share(size_t size) {
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  return memory;
}

bool meeting_wait(struct meeting *meeting, struct rank *rank, uint32_t count, uint32_t round) {
  uint64_t deadline = clock_deadline_ms(DEADLINE_MS / 2);
  meeting->came++;
  while (meeting->came < round * count) {
    if (clock_passed(deadline))
      return rank_fail(rank, "%u of %u ranks came to meeting %u", meeting->came - (round - 1) * count, count, round);
    poll(NULL, 0, 5);
  }
  return true;
}

// In the child: reads the store's URL, runs the body, and ends the process.
static void become(const struct processes *processes, int32_t index, const int ends[2], const struct setup *setup,
                   process_body body, void *arg) {
  static struct rank rank;
  char url[URL_SIZE] = "";
  const int deadly[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}; // cmocka would handle these
  for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
    signal(deadly[i], SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL); // a test that fails leaves no rank behind, not even a stopped one
  close(ends[1]);
  if (read(ends[0], url, sizeof url) != sizeof url)
    _exit(4);
  close(ends[0]);
  struct weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  options.endpoints = url;
  rank.index = index;
  rank.setup = *setup;
  if (weft_store_open(&rank.setup.store, &options) != 0)
    _exit(3);
  weft_store_t *store = rank.setup.store;
  bool ok = body(&rank, arg);
  snprintf(processes->errors[index], sizeof processes->errors[index], "%s", ok ? "" : rank.error);
  rank_close(&rank);
  weft_store_close(store);
  _exit(ok ? 0 : 1);
}

// libfabric searches for all kinds of devices when a process first uses it, which takes half a second. It starts no
// threads, so this process uses it before the ranks are forked.
static void use_transport(void) {
  const char *name = getenv("WEFT_EP_TRANSPORT");
  const struct transport *transport;
  char why[160];
  if (name && strcmp(name, "ofi") == 0 && transport_find(name, &transport) == 0)
    transport->probe(why, sizeof why);
}

void processes_start(struct processes *processes, uint32_t count, const struct setup *setup, process_body body,
                     void *arg) {
  *processes = (struct processes){.count = count};
  processes->errors = processes_share(count * sizeof *processes->errors);
  use_transport();
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  for (uint32_t i = 0; i < count; i++) {
    processes->pids[i] = fork();
    assert_true(processes->pids[i] >= 0);
    if (processes->pids[i] == 0)
      become(processes, (int32_t)i, ends, setup, body, arg);
  }
  close(ends[0]);
  struct weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  options.flags = WEFT_STORE_SERVER_INSECURE;
  assert_int_equal(weft_store_server_start(&processes->server, &options), 0);
  char url[URL_SIZE] = "";
  snprintf(url, sizeof url, "%s", weft_store_server_url(processes->server));
  for (uint32_t i = 0; i < count; i++) // shorter than PIPE_BUF: none is split
    assert_int_equal(write(ends[1], url, sizeof url), sizeof url);
  close(ends[1]);
}

int processes_reap(struct processes *processes, uint32_t index) {
  return processes_reap_within(processes, index, DEADLINE_MS);
}

int processes_reap_within(struct processes *processes, uint32_t index, uint32_t timeout_ms) {
  pid_t pid = processes->pids[index];
  uint64_t deadline = clock_deadline_ms(timeout_ms);
  int status;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (clock_passed(deadline)) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      return -1;
    }
    poll(NULL, 0, 5);
  }
  return status;
}

bool processes_expect(struct processes *processes, uint32_t index, int signal) {
  int status = processes_reap(processes, index);
  if (signal != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == signal : WIFEXITED(status) && WEXITSTATUS(status) == 0)
    return true;
  print_error("rank process %u ended with status 0x%x: %s\n", index, (unsigned)status, processes->errors[index]);
  return false;
}

void processes_end(struct processes *processes) {
  munmap(processes->errors, processes->count * sizeof *processes->errors);
  weft_store_server_stop(processes->server);
}
