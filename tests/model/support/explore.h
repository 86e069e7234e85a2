// Exhaustive search of a model's states, breadth first, so that the story that leads to a fault is the shortest.
//
// A state is a string of bytes; equal strings are one state. The search keeps 64 bits of a hash for each state that it
// has seen and the bytes only of those that it has not gone on from: two states with one hash would be taken for one,
// with a probability below n * n / 2^65 for n states.
#ifndef TESTS_MODEL_EXPLORE_H
#define TESTS_MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct explore;

struct explore_model {
  const char *name;
  void *arg; // for the functions
  // Reports every state that one step leads to, by explore_step(); explore_broken() when this one must not be.
  void (*expand)(struct explore *x, void *arg, const uint8_t *state, size_t size);
  // A step as text.
  void (*describe)(void *arg, uint32_t step, char *text, size_t size);
  // A state as text, for the end of a story.
  void (*show)(void *arg, const uint8_t *state, size_t size);
  // Whether the end of the model may always be reached by steps that are no faults; checked when all was searched.
  bool ends;
};

struct explore_limits {
  uint32_t states; // the search stops there; 0: none
};

struct explore_result {
  uint32_t states, depth, ends;
  uint64_t steps;
  bool complete; // all that can be reached was searched
  bool broken;   // a story that must not be was found
  char broken_why[256];
};

// One step from the state that is expanded: `step` names it, and no other step from this state. `fault`: it need not
// happen. `broken`: NULL, or what is wrong with this step.
void explore_step(struct explore *x, uint32_t step, bool fault, const uint8_t *state, size_t size, const char *broken);
// The state that is expanded must not be.
void explore_broken(struct explore *x, const char *why);
// The state that is expanded is an end: nothing is left to do.
void explore_end(struct explore *x);

// Searches from one state. When something is broken, prints the story to stdout, unless `quiet`.
struct explore_result explore_run(const struct explore_model *model, const uint8_t *state, size_t size,
                                  struct explore_limits limits, bool quiet);

#endif
