// A rank alone in its group, and correct calls for it: tests change a field to a wrong value and check the result.
#ifndef TESTS_EP_ALONE_H
#define TESTS_EP_ALONE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmocka_all.h"

#include <weft/weft.h>

// The sizes of the group, and of the buffers, which are full.
enum { ALONE_CAPACITY = 4, ALONE_HIDDEN = 256, ALONE_TOKENS = 4, ALONE_TOPK = 2, ALONE_EXPERTS = 2, ALONE_ROWS = 8 };

extern uint16_t alone_x[ALONE_TOKENS * ALONE_HIDDEN], alone_received[ALONE_EXPERTS * ALONE_ROWS * ALONE_HIDDEN],
    alone_out[ALONE_TOKENS * ALONE_HIDDEN];
extern const int64_t alone_topk_idx[ALONE_TOKENS * ALONE_TOPK]; // each token goes to both experts
extern const float alone_weights[ALONE_TOKENS * ALONE_TOPK];
extern int32_t alone_counts[ALONE_EXPERTS];

// Options for rank 0, with bf16.
struct weft_ep_options alone_options(weft_store_t *store);
// Opens and activates the rank; fails the test on an error.
weft_ep_t *alone_open(const struct weft_ep_options *options);

struct weft_ep_dispatch_args alone_dispatch(void);
struct weft_ep_recv_args alone_recv(void); // PER_EXPERT
struct weft_ep_combine_args alone_combine(void);

// Whether a call returned this code, and its sentence contains these words.
bool alone_says(int rc, int code, const char *words);

#define assert_says(call, code, words)                                                                                 \
  do {                                                                                                                 \
    int rc_ = (call), code_ = (code);                                                                                  \
    if (!alone_says(rc_, code_, words))                                                                                \
      fail_msg("%s, \"%s\" is not %s, \"%s\"", weft_err_name(rc_), weft_last_error(), weft_err_name(code_), words);    \
  } while (0)

#endif
