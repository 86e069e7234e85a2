// Exhaustive search of a model's states, breadth first, so that the scenario that leads to a fault is the shortest.
//
// A state is a string of bytes; equal strings are one state. For each state the search keeps 64 bits of a hash, and the
// bytes only until it has expanded the state. Two states with the same hash would count as one, with a probability
// below n * n / 2^65 for n states.
#ifndef TESTS_MODEL_EXPLORE_H
#define TESTS_MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct explore;

struct explore_model {
  const char *name;
  void *arg; // of the functions
  // Reports every state that one step leads to, by explore_step(), or a forbidden state, by explore_broken().
  void (*expand)(struct explore *x, void *arg, const uint8_t *state, size_t size);
  // Writes a step as text.
  void (*describe)(void *arg, uint32_t step, char *text, size_t size);
  // Writes a state as text, for the end of a scenario.
  void (*show)(void *arg, const uint8_t *state, size_t size);
  // Whether the end of the model must be reachable from every state by steps that are no faults; checked after the
  // search.
  bool ends;
};

struct explore_limits {
  uint32_t states; // the search stops there; 0: none
};

struct explore_result {
  uint32_t states, depth, ends;
  uint64_t steps;
  bool complete; // all reachable states were searched
  bool broken;   // a forbidden scenario was found
  char broken_why[256];
};

// Adds a step from the state that is expanded: `step` identifies it among the steps of this state. `fault`: it need not
// happen. `broken`: NULL, or what is wrong with this step.
void explore_step(struct explore *x, uint32_t step, bool fault, const uint8_t *state, size_t size, const char *broken);
// The state that is expanded is forbidden.
void explore_broken(struct explore *x, const char *why);
// The state that is expanded is an end: no step is left.
void explore_end(struct explore *x);

// Searches from one state. If something is broken, prints the scenario to stdout, unless `quiet`.
struct explore_result explore_run(const struct explore_model *model, const uint8_t *state, size_t size,
                                  struct explore_limits limits, bool quiet);

#endif
