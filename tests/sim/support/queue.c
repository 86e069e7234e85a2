// The queue of events of the simulation, in order of virtual time.
#include "sim/support/queue.h"

#include <stdlib.h>

static bool before(const struct sim_event *a, const struct sim_event *b) {
  return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void sim_queue_add(struct sim_queue *queue, struct sim_event event) {
  if (queue->count == queue->room) {
    queue->room = queue->room ? 2 * queue->room : 1024;
    queue->heap = realloc(queue->heap, queue->room * sizeof *queue->heap);
    if (!queue->heap)
      abort();
  }
  event.order = queue->decided++;
  size_t at = queue->count++;
  for (; at > 0 && before(&event, &queue->heap[(at - 1) / 2]); at = (at - 1) / 2)
    queue->heap[at] = queue->heap[(at - 1) / 2];
  queue->heap[at] = event;
}

bool sim_queue_take(struct sim_queue *queue, struct sim_event *event) {
  if (queue->count == 0)
    return false;
  *event = queue->heap[0];
  struct sim_event last = queue->heap[--queue->count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < queue->count; at = child) {
    if (child + 1 < queue->count && before(&queue->heap[child + 1], &queue->heap[child]))
      child++;
    if (!before(&queue->heap[child], &last))
      break;
    queue->heap[at] = queue->heap[child];
  }
  if (queue->count > 0)
    queue->heap[at] = last;
  return true;
}

void sim_queue_free(struct sim_queue *queue) {
  free(queue->heap);
  *queue = (struct sim_queue){0};
}
