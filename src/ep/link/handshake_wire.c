// Makes and checks the messages of a handshake.
#include "ep/link/handshake_wire.h"

#include <ctype.h>
#include <string.h>

#include "base/fail.h"

static const uint64_t magic = 0x4B4E494C54464557u;   // "WEFTLINK", read as little endian
static const uint64_t tcp_magic = 0x52414654464557u; // "WEFTFAR", and a NUL

static uint32_t mode_of(const weft_ep_t *ep) {
  return ep->layout.flows ? WEFT_EP_THROUGHPUT : WEFT_EP_LATENCY;
}

struct ep_handshake_message ep_handshake_message_make(const weft_ep_t *ep, enum ep_handshake_kind kind, uint64_t to) {
  struct ep_handshake_message message = {
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
      .mode = mode_of(ep),
      .window_bytes = ep->layout.window_bytes,
      .zero_copy_bytes = ep->zero_copy.bytes,
      .operations_per_step = ep->operations_per_step,
      .depth = EP_DEPTH,
      .memory = ep->engine->memory,
  };
  struct ep_device_card card = {0};
  ep->engine->describe(ep, &card);
  message.device_bytes = card.bytes;
  memcpy(message.device, card.uuid, sizeof message.device);
  return message;
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

static const char *mode_name(uint32_t mode) {
  return mode == WEFT_EP_THROUGHPUT ? "THROUGHPUT" : "LATENCY";
}

static int check_mode(const weft_ep_t *ep, const struct ep_handshake_message *message) {
  if (message->mode == mode_of(ep)) {
    int rc = check_same(message->rank, "window_bytes", message->window_bytes, ep->layout.window_bytes);
    return rc == 0 ? check_same(message->rank, "zero_copy_bytes", message->zero_copy_bytes, ep->zero_copy.bytes) : rc;
  }
  return fail(WEFT_ERR_VERSION, "rank %d runs with mode %s, this rank with %s: all ranks of a group must agree",
              message->rank, mode_name(message->mode), mode_name(mode_of(ep)));
}

static int check_memory(const weft_ep_t *ep, const struct ep_handshake_message *message) {
  uint32_t ours = ep->engine->memory;
  struct ep_device_card card = {0};
  ep->engine->describe(ep, &card);
  if (message->memory == ours)
    return check_same(message->rank, "device window size", message->device_bytes, card.bytes);
  return fail(WEFT_ERR_VERSION, "rank %d runs on %s memory, this rank on %s memory: all ranks of a group must agree",
              message->rank, memory_name(message->memory), memory_name(ours));
}

int ep_handshake_message_check(const weft_ep_t *ep, const struct ep_handshake_message *message, size_t size) {
  if (size < offsetof(struct ep_handshake_message, kind) || message->magic != magic)
    return fail(WEFT_ERR_PROTOCOL, "received %zu bytes, which are not a handshake message of a Weft rank", size);
  if (message->version != EP_LAYOUT_VERSION)
    return fail(WEFT_ERR_VERSION,
                "the peer's windows have layout version %u, ours %u: use one version of Weft everywhere",
                message->version, EP_LAYOUT_VERSION);
  if (size != sizeof *message)
    return fail(WEFT_ERR_PROTOCOL, "a handshake message has %zu bytes: want %zu", size, sizeof *message);
  if (!memchr(message->why, '\0', sizeof message->why))
    return fail(WEFT_ERR_PROTOCOL, "the text of a handshake message has no end");
  int32_t rank = message->rank;
  if (rank < 0 || (uint32_t)rank >= ep->capacity || rank == ep->rank)
    return fail(WEFT_ERR_PROTOCOL, "a handshake message comes from rank %d; this is rank %d of %u", rank, ep->rank,
                ep->capacity);
  int rc = check_same(rank, "capacity", message->capacity, ep->capacity);
  if (rc == 0)
    rc = check_mode(ep, message);
  if (rc == 0)
    rc = check_same(rank, "max_tokens", message->max_tokens, ep->layout.max_tokens);
  if (rc == 0)
    rc = check_same(rank, "hidden", message->hidden, ep->layout.hidden);
  if (rc == 0)
    rc = check_same(rank, "topk", message->topk, ep->layout.topk);
  if (rc == 0)
    rc = check_same(rank, "experts_per_rank", message->experts_per_rank, ep->experts_per_rank);
  if (rc == 0)
    rc = check_same(rank, "dtype", message->dtype, ep->dtype);
  if (rc == 0)
    rc = check_same(rank, "combine_dtype", message->combine_dtype, ep->combine_dtype);
  if (rc == 0)
    rc = check_same(rank, "operations_per_step", message->operations_per_step, ep->operations_per_step);
  if (rc == 0)
    rc = check_same(rank, "depth", message->depth, EP_DEPTH);
  if (rc == 0)
    rc = check_memory(ep, message);
  if (rc == 0)
    rc = check_same(rank, "window size", message->area_bytes, ep->layout.area);
  return rc;
}

// --- between hosts ---

struct ep_tcp_message ep_tcp_message_make(const weft_ep_t *ep, enum ep_handshake_kind kind, uint64_t to) {
  return (struct ep_tcp_message){.magic = tcp_magic,
                                 .version = EP_LAYOUT_VERSION,
                                 .size = sizeof(struct ep_tcp_message),
                                 .message = ep_handshake_message_make(ep, kind, to)};
}

static int check_head(const struct ep_tcp_message *tcp, size_t size) {
  if (size < offsetof(struct ep_tcp_message, message) || tcp->magic != tcp_magic)
    return fail(WEFT_ERR_PROTOCOL, "received %zu bytes, which are not a handshake message of a Weft rank", size);
  return 0;
}

static int check_version(const struct ep_tcp_message *tcp) {
  if (tcp->version == EP_LAYOUT_VERSION)
    return 0;
  return fail(WEFT_ERR_VERSION,
              "the peer's windows have layout version %u, ours %u: use one version of Weft everywhere", tcp->version,
              EP_LAYOUT_VERSION);
}

static int check_whole(const struct ep_tcp_message *tcp, size_t size) {
  if (tcp->size != sizeof *tcp || size != sizeof *tcp)
    return fail(WEFT_ERR_PROTOCOL, "a handshake message has %zu bytes and gives its size as %u: want %zu", size,
                tcp->size, sizeof *tcp);
  return 0;
}

static int check_rest(const weft_ep_t *ep, const struct ep_tcp_message *tcp) {
  int rc = ep_handshake_message_check(ep, &tcp->message, sizeof tcp->message);
  if (rc != 0)
    return rc;
  if (!memchr(tcp->transport, '\0', sizeof tcp->transport))
    return fail(WEFT_ERR_PROTOCOL, "a handshake message of rank %d has a transport whose name has no end",
                tcp->message.rank);
  if (tcp->address_size > sizeof tcp->address || tcp->key_size > sizeof tcp->key)
    return fail(WEFT_ERR_PROTOCOL,
                "a handshake message of rank %d announces an address of %u bytes and a key of %u, which are too long",
                tcp->message.rank, tcp->address_size, tcp->key_size);
  if (tcp->rings_key_size > sizeof tcp->rings_key)
    return fail(WEFT_ERR_PROTOCOL,
                "a handshake message of rank %d announces a key of %u bytes for its rings, which is too long",
                tcp->message.rank, tcp->rings_key_size);
  return 0;
}

bool ep_tcp_message_is_whole(const struct ep_tcp_message *tcp, size_t size) {
  if (size < offsetof(struct ep_tcp_message, message))
    return false;
  return size == sizeof *tcp || tcp->magic != tcp_magic || tcp->version != EP_LAYOUT_VERSION ||
         tcp->size != sizeof *tcp;
}

int ep_tcp_hello_check(const weft_ep_t *ep, const struct ep_tcp_message *hello, size_t size) {
  int rc = check_head(hello, size);
  if (rc == 0)
    rc = check_version(hello);
  if (rc == 0)
    rc = check_whole(hello, size);
  if (rc == 0)
    rc = check_rest(ep, hello);
  if (rc == 0 && (hello->message.kind != EP_HELLO || hello->message.to != ep->incarnation))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d calls another incarnation of this rank", hello->message.rank);
  return rc;
}

int ep_handshake_refused(const struct ep_handshake_message *refusal, int32_t rank) {
  char why[sizeof refusal->why];
  size_t length = strnlen(refusal->why, sizeof why - 1);
  for (size_t i = 0; i < length; i++)
    why[i] = isprint((unsigned char)refusal->why[i]) ? refusal->why[i] : '?';
  why[length] = '\0';
  bool known = refusal->error <= WEFT_ERR_INVALID && refusal->error >= WEFT_ERR_COMPACTED;
  return fail(known ? refusal->error : WEFT_ERR_PROTOCOL, "rank %d refused: %s", rank, why);
}

int ep_tcp_answer_check(const weft_ep_t *ep, const struct ep_tcp_message *answer, size_t size, int32_t rank,
                        uint64_t incarnation, bool *yield) {
  const struct ep_handshake_message *message = &answer->message;
  *yield = false;
  int rc = check_head(answer, size);
  if (rc == 0)
    rc = check_version(answer);
  if (rc == 0)
    rc = check_whole(answer, size);
  if (rc == 0 && message->kind == EP_REFUSED)
    return ep_handshake_refused(message, rank);
  if (rc == 0)
    rc = check_rest(ep, answer);
  if (rc == 0 && (message->rank != rank || message->incarnation != incarnation ||
                  (message->kind != EP_WELCOME && message->kind != EP_YIELD)))
    rc = fail(WEFT_ERR_PROTOCOL, "rank %d gave a malformed answer", rank);
  *yield = rc == 0 && message->kind == EP_YIELD;
  return rc;
}
