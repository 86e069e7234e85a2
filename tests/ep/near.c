// Where the threads run that drive the transport between hosts: where WEFT_CPUS says, and the ranks' other threads do
// not. Two ranks of this process are told to be on two hosts.
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmocka_all.h"

#include "rank.h"

enum { RANKS = 2 };

static cpu_set_t allowed, first;

// Threads that run on the first processor alone, and those that run where the process may.
static void count_threads(uint32_t *there, uint32_t *anywhere) {
  *there = *anywhere = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    int id = atoi(task->d_name);
    cpu_set_t set;
    if (id == 0 || sched_getaffinity(id, sizeof set, &set) != 0)
      continue;
    *there += CPU_EQUAL(&set, &first);
    *anywhere += CPU_EQUAL(&set, &allowed);
  }
  if (tasks)
    closedir(tasks);
}

// Between two operations: the other rank is there until it has had the second one.
static void operate_and_look(struct rank *rank, void *arg) {
  (void)arg;
  uint32_t there, anywhere;
  if (!rank_operate_n(rank, 5))
    return;
  if (rank->index == 0) {
    count_threads(&there, &anywhere);
    if (there != RANKS || anywhere < RANKS)
      rank_fail(rank, "%u threads are where they were asked to be, %u anywhere", there, anywhere);
  }
  rank_operate_n(rank, 1);
}

static void test_net_threads_are_where_they_were_asked_to_be(void **state) {
  (void)state;
  static const int32_t all[RANKS] = {0, 1};
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, RANKS, operate_and_look, NULL);
  weft_store_close(setup.store);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_net_threads_are_where_they_were_asked_to_be)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
