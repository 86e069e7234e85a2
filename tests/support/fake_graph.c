// Graphs of the fake plug-in: launches of one thread that are kept, and run again and again. The thread of the device
// on which a graph is launched runs them, and not the thread of the engine, so earlier launches have to be awaited.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "support/fake_device.h"

struct fake_graph {
  uint64_t number;
  uint32_t count;
  struct fake_launch launches[FAKE_QUEUE / 2];
};

static _Atomic uint64_t captures;
static _Thread_local struct fake_graph *captured;
static _Thread_local void *captured_stream;

uint64_t fake_capture_of(const void *stream) {
  return captured && stream == captured_stream ? captured->number : 0;
}

bool fake_capture(const void *stream, const struct fake_launch *launch) {
  if (fake_capture_of(stream) == 0)
    return false;
  if (captured->count < FAKE_QUEUE / 2)
    captured->launches[captured->count] = *launch;
  captured->count++;
  return true;
}

int fake_graph_begin(struct device *device, void *stream, char *why) {
  (void)device;
  captured = calloc(1, sizeof *captured);
  captured_stream = stream;
  if (!captured)
    return fake_say(why, WEFT_ERR_NOMEM, "no memory");
  captured->number = atomic_fetch_add(&captures, 1) + 1;
  return 0;
}

int fake_graph_end(struct device *device, void *stream, void **graph, char *why) {
  struct fake_graph *made = captured;
  (void)device, (void)stream;
  captured = NULL;
  if (made->count > FAKE_QUEUE / 2) {
    free(made);
    return fake_say(why, WEFT_ERR_LIMIT, "the fake's graphs are small");
  }
  *graph = made;
  return 0;
}

int fake_graph_launch(struct device *device, void *graph, void *stream, char *why) {
  const struct fake_graph *made = graph;
  (void)stream, (void)why;
  for (uint32_t i = 0; i < made->count; i++)
    fake_launch(device, &made->launches[i]);
  return 0;
}

void fake_graph_close(struct device *device, void *graph) {
  (void)device;
  free(graph);
}

enum { HUGE = 16 << 20 }; // larger fills only pass the time of a GPU

int fake_fill(struct device *device, void *memory, uint8_t byte, size_t size, void *stream, char *why) {
  (void)device, (void)stream, (void)why;
  memset(memory, byte, size < HUGE ? size : 1);
  return 0;
}
