// Operations of ranks under test whose top-k every rank knows, with every buffer of their calls: for tests of routes,
// which compare what two operations brought, bit by bit, or with a plain computation.
#ifndef TESTS_EP_ROUTES_H
#define TESTS_EP_ROUTES_H

#include "ep/support/rank.h"

enum { ROUTES_RANKS = 8 }; // at most

// The tokens of all ranks: drawn, the same on each of them.
struct draw {
  uint64_t seed;
  uint32_t count; // of ranks, which are 0 to count - 1
  uint32_t topk;  // K
  float drop;     // share of selections that are -1
  bool even;      // all have as many tokens as there may be
  uint32_t tokens[ROUTES_RANKS];
  int64_t *topk_idx[ROUTES_RANKS]; // [tokens][K]
  float *weights[ROUTES_RANKS];    // [tokens][K]
};
void draw_make(struct draw *draw, const struct setup *setup);
void draw_free(struct draw *draw);
// Values of a rank's tokens, bf16, by their own seed.
void draw_x(const struct setup *setup, uint64_t seed, int32_t rank, uint16_t *x);

// How an operation runs.
struct route_way {
  enum weft_ep_layout layout;
  enum weft_ep_dtype dtype;
  enum weft_ep_combine_dtype combine_dtype;
  bool late, apart, in_place, keep_places, renormalize, weights_back;
  uint32_t alignment; // PACKED
};

// Rows flow in pieces (rank.c, WEFT_TEST_WINDOW): weights come early then, and calls that need whole windows are not
// made.
bool way_flows(void);
// The same, and ranks of another host share rows (WEFT_TEST_HOSTS).
bool way_shares(void);
struct route_way way_of(struct route_way way);

// All that an operation brings. Two of them that brought the same are equal as memory.
struct brought {
  size_t bytes; // of what follows the pointers
  uint8_t *memory;
  uint8_t *x; // with in_place: gathered from where the rows stood
  uint32_t *scales;
  int32_t *counts, *src_rank, *src_token, *local_expert;
  int64_t *range;
  float *weights;
  int32_t *slot, *expert_end;
  uint16_t *out;
  float *out_weights;
  struct weft_ep_info info;
  struct weft_ep_result result;
  struct weft_ep_missing missing[256];
  int32_t lost[ROUTES_RANKS];
  // Not compared:
  uint16_t *y;
  float *row_weights;
  const void **rows_at;
  struct weft_ep_recv_args recv;
};
void brought_new(struct brought *brought, const struct setup *setup);
void brought_free(struct brought *brought);
// Forgets what it has.
void brought_poison(struct brought *brought);

// The arguments of a dispatch of this rank's part of the draw.
struct weft_ep_dispatch_args way_dispatch(const struct rank *rank, const struct draw *draw, const struct route_way *way,
                                          const uint16_t *x);
// Of its receive, its answers and its combine; `out` of `brought` is where the sums go.
void way_recv(const struct rank *rank, const struct route_way *way, struct brought *brought);
void way_answers(const struct rank *rank, uint64_t seed, struct brought *brought);
struct weft_ep_combine_args way_combine(const struct rank *rank, const struct draw *draw, const struct route_way *way,
                                        struct brought *brought);
// A whole operation; the answers are drawn by `seed` and the place of a row. False: rank->error says why.
bool way_run(struct rank *rank, const struct draw *draw, const struct route_way *way,
             const struct weft_ep_dispatch_args *args, uint64_t seed, struct brought *brought);
// Whether both brought the same; false: rank->error says which part differs.
bool brought_equal(struct rank *rank, const struct brought *a, const struct brought *b, const char *what);

#endif
