// /metrics of a node: the counters of its ranks, and the state of the run.
#ifndef RUN_NODE_METRICS_H
#define RUN_NODE_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct metrics_server;
struct node;
struct run_counters;

enum node_exit { NODE_EXIT_DONE, NODE_EXIT_PLANNED_KILL, NODE_EXIT_FAILED, NODE_EXITS };

// Zero: metrics were not requested. The server's thread reads the atomics.
struct node_metrics {
  struct metrics_server *server;
  struct run_counters *counters; // [plan->ranks.count]
  uint32_t num_counters;
  int fd; // of the counters
  char *bearer_file;
  _Atomic uint32_t phase, processes;
  _Atomic bool store_away;
  _Atomic uint64_t exits[NODE_EXITS];
};

// Serves the metrics if the configuration requests it, and prints the address. The plan and the token must be known.
// Errors are those of metrics_server_open() and secret_to_file().
int node_metrics_open(struct node *node);
void node_metrics_close(struct node *node);

// Updates the metrics from the state of the loop.
void node_metrics_look(struct node *node);
void node_metrics_exit(struct node *node, enum node_exit how);

// For a rank that is started: the descriptor and the rank's place; false: metrics were not requested.
bool node_metrics_place(const struct node *node, int32_t rank, int *fd, uint32_t *place);

#endif
