// For tests of where threads run: WEFT_CPUS asks for the first processor that this process may use.
#ifndef SUPPORT_FIRST_PROCESSOR_H
#define SUPPORT_FIRST_PROCESSOR_H

#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct first_processor {
  cpu_set_t allowed, first;
};

// Sets WEFT_CPUS. False, with a message: there is no other processor.
static inline bool first_processor_ask(struct first_processor *processor) {
  if (sched_getaffinity(0, sizeof processor->allowed, &processor->allowed) != 0 || CPU_COUNT(&processor->allowed) < 2) {
    printf("skipped: there are not two processors to choose from\n");
    return false;
  }
  int cpu = 0;
  while (!CPU_ISSET(cpu, &processor->allowed))
    cpu++;
  CPU_ZERO(&processor->first);
  CPU_SET(cpu, &processor->first);
  char list[16];
  snprintf(list, sizeof list, "%d", cpu);
  setenv("WEFT_CPUS", list, 1);
  return true;
}

// Counts the threads of this process that run only there, and those that may run on any processor of the process.
static inline void first_processor_count(const struct first_processor *processor, uint32_t *there, uint32_t *anywhere) {
  *there = *anywhere = 0;
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    int id = atoi(task->d_name);
    cpu_set_t set;
    if (id == 0 || sched_getaffinity(id, sizeof set, &set) != 0)
      continue;
    *there += CPU_EQUAL(&set, &processor->first);
    *anywhere += CPU_EQUAL(&set, &processor->allowed);
  }
  if (tasks)
    closedir(tasks);
}

#endif
