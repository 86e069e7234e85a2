// weft p2p: transfers between two processes, checked and measured.
//
// The target lends a buffer; the initiator connects to it by a socket, says how large the buffer is to be, and then
// writes to it, reads from it and exchanges notifications, for each size. All that the two say to each other goes by
// notifications of their agents (session.h).
#ifndef P2P_P2P_H
#define P2P_P2P_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/agent.h>

#include "base/time/histogram.h"

enum p2p_mode { P2P_LOCAL, P2P_TARGET, P2P_INITIATOR };
enum p2p_memory { P2P_MEMORY_HOST, P2P_MEMORY_USER, P2P_MEMORY_CUDA };
enum p2p_op { P2P_OP_ALL, P2P_OP_WRITE, P2P_OP_READ, P2P_OP_NOTIFY };

extern const char *const p2p_mode_names[]; // NULL at the end
extern const char *const p2p_memory_names[];
extern const char *const p2p_op_names[];

struct p2p_config {
  enum p2p_mode mode;
  const char *host; // the target's
  uint16_t port;
  const char *listen; // address of the target
  const char *token;  // that both sides know
  bool tell_token;    // a target's is of its own making: it prints the initiator's command
  const char *lend;   // the largest buffer that a target lends; NULL: as large as there is room for
  const char *sizes;  // "8,4KB,1MB"
  enum p2p_op op;
  enum p2p_memory memory;
  uint32_t gpu;
  bool cuda; // the same as memory cuda, by its old name
  uint32_t iterations, warmup, depth;
  bool bidirectional, no_check;
  const char *transport;
  uint32_t timeout_ms;
  bool forever; // the target serves one initiator after the other
  bool json, quiet, color, unicode;
};

enum { P2P_MAX_SIZES = 64 };

struct p2p_sizes {
  uint64_t bytes[P2P_MAX_SIZES];
  uint32_t count;
  uint64_t largest;
};

// INVALID: says which of them is wrong, and what would be right.
int p2p_sizes_parse(const char *text, struct p2p_sizes *sizes);
// "64 KiB"; into out[cap], which it returns.
const char *p2p_size_text(uint64_t bytes, char *out, size_t cap);

// How large each side's buffer is to be.
uint64_t p2p_buffer_bytes(const struct p2p_config *config, const struct p2p_sizes *sizes);

// What one size and operation came to.
struct p2p_result {
  enum p2p_op op;
  uint64_t bytes;
  uint32_t iterations, depth;
  struct histogram latency; // ns, of one after the other; a notification: half of its round trip
  double gbps;              // with `depth` under way; 1e9 bytes a second. 0: not measured
  double peer_gbps;         // likewise of the peer's, at the same time; 0: not bidirectional
  bool checked;             // every byte was
  char transport[32];
};

struct p2p_results {
  struct p2p_result *list;
  uint32_t count;
};

// Each returns 0 or a code with its sentence. DATA: bytes were not what they should be.
int p2p_run(const struct p2p_config *config);
int p2p_target(const struct p2p_config *config, int tell_port);
int p2p_initiator(const struct p2p_config *config, const struct p2p_sizes *sizes);

int p2p_report(FILE *out, const struct p2p_config *config, const struct p2p_results *results);

#endif
