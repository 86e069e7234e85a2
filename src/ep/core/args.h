// Checks of the structs that callers give to weft/ep.h. Older and newer programs may pass structs of another size;
// flags have to be known to this library.
#ifndef EP_CORE_ARGS_H
#define EP_CORE_ARGS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <weft/ep.h>

#include "base/sized.h"
#include "ep/core/layout.h"

// Each gives the caller's struct itself if it has the size of this version, else `copy`; NULL after fail(). The third
// argument is the last field of the struct's first version.
#define EP_READ_OPTIONS(given, copy)       SIZED_READ(given, copy, operations_per_step, "weft_ep_options")
#define EP_READ_DISPATCH(given, copy)      SIZED_READ(given, copy, flags, "weft_ep_dispatch_args")
#define EP_READ_RECV(given, copy)          SIZED_READ(given, copy, reserved, "weft_ep_recv_args")
#define EP_READ_COMBINE(given, copy)       SIZED_READ(given, copy, reserved, "weft_ep_combine_args")
#define EP_READ_ROUTE_OPTIONS(given, copy) SIZED_READ(given, copy, reserved, "weft_ep_route_options")

// The struct to write outputs into: the caller's struct itself, or `copy` with its contents. NULL if the caller gave
// none, or after fail(); in the latter case *rc is not 0.
static inline void *ep_output(void *given, void *copy, size_t known, size_t first, const char *name, int *rc) {
  if (!given || *(const size_t *)given == known)
    return given;
  *rc = sized_check_output(given, first, name);
  if (*rc != 0)
    return NULL;
  size_t size = *(const size_t *)given;
  memset(copy, 0, known);
  memcpy(copy, given, size < known ? size : known);
  return copy;
}
#define EP_OUTPUT(given, copy, last, name, rc)                                                                         \
  ep_output(given, copy, sizeof *(copy), SIZED_END(__typeof__(*(copy)), last), name, rc)
#define EP_OUTPUT_INFO(given, copy, rc)         EP_OUTPUT(given, copy, reserved, "weft_ep_info", rc)
#define EP_OUTPUT_RESULT(given, copy, rc)       EP_OUTPUT(given, copy, reserved, "weft_ep_result", rc)
#define EP_OUTPUT_ROUTE_INFO(given, copy, rc)   EP_OUTPUT(given, copy, num_lost, "weft_ep_route_info", rc)
#define EP_OUTPUT_ROUTE_ARRAYS(given, copy, rc) EP_OUTPUT(given, copy, slot, "weft_ep_route_arrays", rc)

// Copies the outputs to the caller's struct, if they are in `copy`.
static inline void ep_output_end(void *given, const void *used, size_t known) {
  if (used && used != given)
    sized_write(given, used, known);
}

// INVALID: `flags` has a bit that is not in `known`, or `reserved` is not 0.
int ep_check_flags(const char *call, uint32_t flags, uint32_t known, uint32_t reserved);
// check.c. INVALID, UNSUPPORTED: types or strides that no engine supports, or that the group was not opened for.
int ep_check_send(weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
int ep_check_recv(weft_ep_t *ep, const struct weft_ep_recv_args *recv);
// The rows that such a dispatch sends.
struct ep_form ep_form_of(const weft_ep_t *ep, const struct weft_ep_dispatch_args *args);
int ep_check_combine(weft_ep_t *ep, const struct weft_ep_combine_args *args, const char *call);
// Fails with UNSUPPORTED: `what` was given; `instead` says what is needed.
int ep_unsupported(const char *call, const char *what, const char *instead);

#endif
