#include "ep/greeting.h"

#include <string.h>

#include "base/fail.h"
#include "ep/gpu.h"

static const uint64_t magic = 0x4B4E494C54464557u; // "WEFTLINK", read as little endian

struct ep_greeting ep_greeting_make(const weft_ep_t *ep, enum ep_greeting_kind kind, uint64_t to) {
  struct ep_greeting greeting = {
      .magic = magic,
      .version = EP_LAYOUT_VERSION,
      .kind = kind,
      .incarnation = ep->incarnation,
      .to = to,
      .area_bytes = ep->layout.area,
      .rank = ep->rank,
      .capacity = ep->capacity,
      .max_tokens = ep->layout.max_tokens,
      .hidden = ep->layout.hidden,
      .topk = ep->layout.topk,
      .experts_per_rank = ep->experts_per_rank,
      .dtype = ep->dtype,
      .combine_dtype = ep->combine_dtype,
      .depth = WEFT_EP_DEPTH,
      .memory = weft_ep_memory(ep, NULL),
  };
  if (ep->gpu) {
    greeting.device_bytes = ep->gpu->area_bytes;
    memcpy(greeting.device, ep->gpu->uuid, sizeof greeting.device);
  }
  return greeting;
}

static int check_same(int32_t rank, const char *what, uint64_t theirs, uint64_t ours) {
  if (theirs == ours)
    return 0;
  return fail(WEFT_ERR_VERSION, "rank %d runs with %s %llu, this rank with %llu: all ranks of a group must agree", rank,
              what, (unsigned long long)theirs, (unsigned long long)ours);
}

static const char *memory_name(uint32_t memory) {
  return memory == WEFT_EP_MEMORY_CUDA ? "CUDA" : "host";
}

static int check_memory(const weft_ep_t *ep, const struct ep_greeting *greeting) {
  uint32_t ours = weft_ep_memory(ep, NULL);
  if (greeting->memory == ours)
    return check_same(greeting->rank, "device window size", greeting->device_bytes, ep->gpu ? ep->gpu->area_bytes : 0);
  return fail(WEFT_ERR_VERSION, "rank %d runs on %s memory, this rank on %s memory: all ranks of a group must agree",
              greeting->rank, memory_name(greeting->memory), memory_name(ours));
}

int ep_greeting_check(const weft_ep_t *ep, const struct ep_greeting *greeting, size_t size) {
  if (size < offsetof(struct ep_greeting, kind) || greeting->magic != magic)
    return fail(WEFT_ERR_PROTOCOL, "what came (%zu bytes) is no greeting of a Weft rank", size);
  if (greeting->version != EP_LAYOUT_VERSION)
    return fail(WEFT_ERR_VERSION,
                "the peer's windows have layout version %u, ours %u: use one version of Weft everywhere",
                greeting->version, EP_LAYOUT_VERSION);
  if (size != sizeof *greeting)
    return fail(WEFT_ERR_PROTOCOL, "a greeting has %zu bytes, not %zu", size, sizeof *greeting);
  if (!memchr(greeting->why, '\0', sizeof greeting->why))
    return fail(WEFT_ERR_PROTOCOL, "a greeting's text does not end");
  int32_t rank = greeting->rank;
  if (rank < 0 || (uint32_t)rank >= ep->capacity || rank == ep->rank)
    return fail(WEFT_ERR_PROTOCOL, "a greeting comes from rank %d; this is rank %d of %u", rank, ep->rank,
                ep->capacity);
  int rc = check_same(rank, "capacity", greeting->capacity, ep->capacity);
  if (rc == 0)
    rc = check_same(rank, "max_tokens", greeting->max_tokens, ep->layout.max_tokens);
  if (rc == 0)
    rc = check_same(rank, "hidden", greeting->hidden, ep->layout.hidden);
  if (rc == 0)
    rc = check_same(rank, "topk", greeting->topk, ep->layout.topk);
  if (rc == 0)
    rc = check_same(rank, "experts_per_rank", greeting->experts_per_rank, ep->experts_per_rank);
  if (rc == 0)
    rc = check_same(rank, "dtype", greeting->dtype, ep->dtype);
  if (rc == 0)
    rc = check_same(rank, "combine_dtype", greeting->combine_dtype, ep->combine_dtype);
  if (rc == 0)
    rc = check_same(rank, "depth", greeting->depth, WEFT_EP_DEPTH);
  if (rc == 0)
    rc = check_memory(ep, greeting);
  if (rc == 0)
    rc = check_same(rank, "window size", greeting->area_bytes, ep->layout.area);
  return rc;
}
