// The message that two ranks exchange when they connect: one packet of fixed size in each direction, in native byte
// order. If the byte order of the other host differs, its magic number does not match.
#ifndef EP_LINK_HANDSHAKE_WIRE_H
#define EP_LINK_HANDSHAKE_WIRE_H

#include <stdint.h>

#include "ep/core/engine.h"
#include "transport/transport.h"

enum ep_handshake_kind {
  EP_HELLO = 1, // the dialler's; with descriptors: doorbell page, area, and on CUDA memory the device's window
  EP_WELCOME,   // the acceptor accepts; with descriptors
  EP_YIELD,     // both dialled: the acceptor's own call is used, or there is a link already
  EP_REFUSED,   // `error` and `why` say why
};

// A caller that has a welcome, and has mapped or reached what it describes, confirms that by EP_NOTICE_CONFIRMED. On
// one host this is a packet with this word alone.
#define EP_CONFIRMATION UINT64_C(0x44464E43544657) // "WFTCNFD", and a NUL; read as little endian

struct ep_handshake_message {
  uint64_t magic;
  uint32_t version; // EP_LAYOUT_VERSION
  uint32_t kind;
  uint64_t incarnation;              // the sender's
  uint64_t to;                       // incarnation of the receiver
  uint64_t area_bytes, device_bytes; // device_bytes: 0 on host memory
  int32_t rank;                      // the sender's
  uint32_t capacity, max_tokens, hidden, topk, experts_per_rank, dtype, depth;
  uint32_t memory;    // enum weft_ep_memory: HOST or CUDA
  uint8_t device[16]; // CUDA: uuid of the GPU
  int32_t error;      // REFUSED: enum weft_err
  char why[128];
  uint32_t combine_dtype;
  uint32_t mode;         // enum weft_ep_mode
  uint64_t window_bytes; // THROUGHPUT; else 0
  uint64_t zero_copy_bytes;
  uint32_t operations_per_step, pad;
};

// Between hosts, within TLS. The fields before `message` are the same in all versions, so that any two versions can
// detect that they do not match.
struct ep_tcp_message {
  uint64_t magic;
  uint32_t version, size; // EP_LAYOUT_VERSION, and the size of this struct
  struct ep_handshake_message message;
  char transport[EP_TRANSPORT_NAME];
  uint64_t link; // the sender's number of the link, for messages to it
  uint32_t address_size, key_size;
  uint8_t address[TRANSPORT_MAX_ADDRESS]; // of the sender's worker
  uint8_t key[TRANSPORT_MAX_KEY];         // of the area that the sender reads
  uint32_t rings_key_size, pad;           // 0: no rings for the receiver's transport (gpu/remote/rings.h)
  uint8_t rings_key[TRANSPORT_MAX_KEY];
};

// This rank's message.
struct ep_handshake_message ep_handshake_message_make(const weft_ep_t *ep, enum ep_handshake_kind kind, uint64_t to);
struct ep_tcp_message ep_tcp_message_make(const weft_ep_t *ep, enum ep_handshake_kind kind, uint64_t to);

// Checks that `size` received bytes are a handshake message that this rank can answer. PROTOCOL, VERSION (names the
// option that differs).
int ep_handshake_message_check(const weft_ep_t *ep, const struct ep_handshake_message *message, size_t size);

// Fails with the error of a refusal from `rank`; PROTOCOL if that error is unknown. The refusal's text is shown to
// people, so its control characters are replaced.
int ep_handshake_refused(const struct ep_handshake_message *refusal, int32_t rank);

// Whether the first `size` bytes of a message from another host suffice to check it: it is complete, or its head shows
// that it is no such message or has another version.
bool ep_tcp_message_is_whole(const struct ep_tcp_message *tcp, size_t size);

// Checks that the `size` bytes that a caller from another host sent (they begin `hello`) are a call of this rank.
// VERSION, PROTOCOL: as above.
int ep_tcp_hello_check(const weft_ep_t *ep, const struct ep_tcp_message *hello, size_t size);

// The same for the answer of a called rank: a welcome of that rank and incarnation, or `*yield`. If the rank refused,
// returns its error.
int ep_tcp_answer_check(const weft_ep_t *ep, const struct ep_tcp_message *answer, size_t size, int32_t rank,
                        uint64_t incarnation, bool *yield);

#endif
