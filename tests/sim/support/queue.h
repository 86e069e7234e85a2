// Future events in the order of their times; events of the same time are in the order in which they were added.
#ifndef TESTS_SIM_QUEUE_H
#define TESTS_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;
struct sim_member;

struct sim_event {
  uint64_t at_ns;
  uint64_t order;
  void (*happen)(struct sim *sim, const struct sim_event *event);
  struct sim_member *member;
  void *data;
  uint64_t number;
};

struct sim_queue {
  struct sim_event *heap;
  size_t count, room;
  uint64_t decided;
};

void sim_queue_add(struct sim_queue *queue, struct sim_event event); // `order` is set here
bool sim_queue_take(struct sim_queue *queue, struct sim_event *event);
void sim_queue_free(struct sim_queue *queue);

#endif
