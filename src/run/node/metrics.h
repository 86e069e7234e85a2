// /metrics of a node: what its ranks count, and how the run stands.
#ifndef RUN_NODE_METRICS_H
#define RUN_NODE_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct metrics_server;
struct node;
struct run_counters;

enum node_exit { NODE_EXIT_DONE, NODE_EXIT_PLANNED_KILL, NODE_EXIT_FAILED, NODE_EXITS };

// Zero: nobody asked for metrics. The atomics are for the server's thread.
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

// Serves them if the configuration asks for it, and says where. The plan and the token are known. Codes are those of
// metrics_server_open() and secret_to_file().
int node_metrics_open(struct node *node);
void node_metrics_close(struct node *node);

// What the loop has seen.
void node_metrics_look(struct node *node);
void node_metrics_exit(struct node *node, enum node_exit how);

// For a rank that is started: the descriptor and its place; false: nobody asked.
bool node_metrics_place(const struct node *node, int32_t rank, int *fd, uint32_t *place);

#endif
