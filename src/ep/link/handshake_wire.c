// Makes and checks the messages of a handshake.
#include "ep/link/handshake_wire.h"

#include <ctype.h>
#include <string.h>

#include "base/fail.h"

static const uint64_t magic = 0x4B4E494C54464557u;   // "WEFTLINK", read as little endian
static const uint64_t far_magic = 0x52414654464557u; // "WEFTFAR", and a NUL

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
      .memory = ep->engine->memory,
  };
  struct ep_device_card card = {0};
  ep->engine->describe(ep, &card);
  greeting.device_bytes = card.bytes;
  memcpy(greeting.device, card.uuid, sizeof greeting.device);
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
  uint32_t ours = ep->engine->memory;
  struct ep_device_card card = {0};
  ep->engine->describe(ep, &card);
  if (greeting->memory == ours)
    return check_same(greeting->rank, "device window size", greeting->device_bytes, card.bytes);
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

// --- between hosts ---

struct ep_far_greeting ep_far_greeting_make(const weft_ep_t *ep, enum ep_greeting_kind kind, uint64_t to) {
  return (struct ep_far_greeting){.magic = far_magic,
                                  .version = EP_LAYOUT_VERSION,
                                  .size = sizeof(struct ep_far_greeting),
                                  .greeting = ep_greeting_make(ep, kind, to)};
}

static int check_head(const struct ep_far_greeting *far, size_t size) {
  if (size < offsetof(struct ep_far_greeting, greeting) || far->magic != far_magic)
    return fail(WEFT_ERR_PROTOCOL, "what came (%zu bytes) is no greeting of a Weft rank", size);
  return 0;
}

static int check_version(const struct ep_far_greeting *far) {
  if (far->version == EP_LAYOUT_VERSION)
    return 0;
  return fail(WEFT_ERR_VERSION,
              "the peer's windows have layout version %u, ours %u: use one version of Weft everywhere", far->version,
              EP_LAYOUT_VERSION);
}

static int check_whole(const struct ep_far_greeting *far, size_t size) {
  if (far->size != sizeof *far || size != sizeof *far)
    return fail(WEFT_ERR_PROTOCOL, "a greeting has %zu bytes and says %u, not %zu", size, far->size, sizeof *far);
  return 0;
}

static int check_rest(const weft_ep_t *ep, const struct ep_far_greeting *far) {
  int rc = ep_greeting_check(ep, &far->greeting, sizeof far->greeting);
  if (rc != 0)
    return rc;
  if (!memchr(far->transport, '\0', sizeof far->transport))
    return fail(WEFT_ERR_PROTOCOL, "a greeting of rank %d has a transport whose name does not end", far->greeting.rank);
  if (far->address_size > sizeof far->address || far->key_size > sizeof far->key)
    return fail(WEFT_ERR_PROTOCOL, "a greeting of rank %d speaks of an address of %u bytes and a key of %u",
                far->greeting.rank, far->address_size, far->key_size);
  return 0;
}

bool ep_far_is_whole(const struct ep_far_greeting *far, size_t size) {
  if (size < offsetof(struct ep_far_greeting, greeting))
    return false;
  return size == sizeof *far || far->magic != far_magic || far->version != EP_LAYOUT_VERSION ||
         far->size != sizeof *far;
}

int ep_far_hello_check(const weft_ep_t *ep, const struct ep_far_greeting *hello, size_t size) {
  int rc = check_head(hello, size);
  if (rc == 0)
    rc = check_version(hello);
  if (rc == 0)
    rc = check_whole(hello, size);
  if (rc == 0)
    rc = check_rest(ep, hello);
  if (rc == 0 && (hello->greeting.kind != EP_HELLO || hello->greeting.to != ep->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d calls an incarnation that this rank is not", hello->greeting.rank);
  return rc;
}

// What it says is shown to people: no control characters.
static int take_refusal(const struct ep_greeting *refusal, int32_t rank) {
  char why[sizeof refusal->why];
  size_t length = strnlen(refusal->why, sizeof why - 1);
  for (size_t i = 0; i < length; i++)
    why[i] = isprint((unsigned char)refusal->why[i]) ? refusal->why[i] : '?';
  why[length] = '\0';
  bool known = refusal->error <= WEFT_ERR_INVALID && refusal->error >= WEFT_ERR_COMPACTED;
  return fail(known ? refusal->error : WEFT_ERR_PROTOCOL, "rank %d refused: %s", rank, why);
}

int ep_far_answer_check(const weft_ep_t *ep, const struct ep_far_greeting *answer, size_t size, int32_t rank,
                        uint64_t incarnation, bool *yield) {
  const struct ep_greeting *greeting = &answer->greeting;
  *yield = false;
  int rc = check_head(answer, size);
  if (rc == 0)
    rc = check_version(answer);
  if (rc == 0)
    rc = check_whole(answer, size);
  if (rc == 0 && greeting->kind == EP_REFUSED)
    return take_refusal(greeting, rank);
  if (rc == 0)
    rc = check_rest(ep, answer);
  if (rc == 0 && (greeting->rank != rank || greeting->incarnation != incarnation ||
                  (greeting->kind != EP_WELCOME && greeting->kind != EP_YIELD)))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d gave a malformed answer", rank);
  *yield = rc == 0 && greeting->kind == EP_YIELD;
  return rc;
}
