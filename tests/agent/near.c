// Where an agent's thread runs: where WEFT_CPUS says, and nobody else does.
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmocka_all.h"

#include <weft/agent.h>

static cpu_set_t allowed, first;

// Whether a thread other than this one runs on the first processor alone.
static bool is_there(void) {
  bool found = false;
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  for (struct dirent *task; (task = readdir(tasks));) {
    int id = atoi(task->d_name);
    cpu_set_t set;
    found |= id > 0 && id != (int)syscall(SYS_gettid) && sched_getaffinity(id, sizeof set, &set) == 0 &&
             CPU_EQUAL(&set, &first);
  }
  closedir(tasks);
  return found;
}

static void test_the_thread_is_where_it_was_asked_to_be(void **state) {
  (void)state;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *agent;
  cpu_set_t own;
  options.name = "near";
  options.transports = "shm";
  assert_false(is_there());
  assert_int_equal(weft_agent_open(&agent, &options), 0);
  bool there = is_there();
  assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
  weft_agent_close(agent);
  assert_true(there);
  assert_true(CPU_EQUAL(&own, &allowed));
}

int main(void) {
  char list[16];
  int cpu = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
    printf("skipped: there are not two processors to choose from\n");
    return 77;
  }
  while (!CPU_ISSET(cpu, &allowed))
    cpu++;
  CPU_ZERO(&first);
  CPU_SET(cpu, &first);
  snprintf(list, sizeof list, "%d", cpu);
  setenv("WEFT_CPUS", list, 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_thread_is_where_it_was_asked_to_be)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
