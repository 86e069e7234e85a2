// What the programs of this folder share: a program is run by some ranks, each a thread of this process, on host memory
// or, with the argument "cuda", on GPUs. What goes wrong ends it with a sentence.
#ifndef TESTS_CARRY_CARRY_H
#define TESTS_CARRY_CARRY_H

#include <weft/weft.h>

enum { CARRY_MS = 30000 }; // every wait has this deadline

struct carry {
  struct weft_ep_options options; // to open the rank with: store, rank, memory and device are filled in
  weft_ep_t *ep;
  int32_t rank;
  void *stream;
};

// Ends the process when `rc` is an error. Returns it.
int carry_must(int rc, const char *what);
// Ends the process unless it is so.
void carry_is(bool so, const char *what);
// Refused with this code, in a sentence that has these words.
void carry_refused(int rc, int code, const char *words);
// Memory of the rank, zeroed; freed at the end.
void *carry_memory(struct carry *c, size_t size);
// To or from it, behind what is in the stream.
void carry_copy(struct carry *c, void *to, const void *from, size_t size);
// Waits for the other ranks' threads.
void carry_meet(struct carry *c);
// Opens the rank with its options as one of `founders`, and activates it.
void carry_found(struct carry *c, uint32_t founders);

// bf16 and back.
uint16_t carry_bf16(float value);
float carry_f32(uint16_t bits);
// Fills rank memory with rows of one value each, bf16: row i has first + i * step.
void carry_fill_rows(struct carry *c, void *to, uint32_t rows, uint32_t hidden, float first, float step);

// Runs `body` for each rank; what main() is to return. `options`: sizes, for all ranks.
int carry_run(int argc, char **argv, uint32_t ranks, const struct weft_ep_options *options,
              void (*body)(struct carry *));

#endif
