// weft p2p: transfers between two processes, or between memory and storage, checked and measured.
//
// The target lends a buffer; the initiator connects to it by a socket, says how large the buffer is to be, and then
// writes to it, reads from it and exchanges notifications, for each size. All that the two say to each other goes by
// notifications of their agents (session/session.h).
#ifndef P2P_P2P_H
#define P2P_P2P_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/agent.h>

#include "base/time/histogram.h"
#include "limits/limits.h"

enum p2p_mode { P2P_LOCAL, P2P_TARGET, P2P_INITIATOR };
enum p2p_memory { P2P_MEMORY_HOST, P2P_MEMORY_USER, P2P_MEMORY_CUDA, P2P_MEMORY_FILE, P2P_MEMORY_OBJECT };
enum p2p_op { P2P_OP_ALL, P2P_OP_WRITE, P2P_OP_READ, P2P_OP_NOTIFY };
enum p2p_format { P2P_TEXT, P2P_JSON, P2P_CSV };

extern const char *const p2p_mode_names[]; // NULL at the end
extern const char *const p2p_memory_names[];
extern const char *const p2p_op_names[];

struct p2p_config {
  enum p2p_mode mode;
  const char *host; // the target's
  uint16_t port;
  const char *listen; // address of the target
  const char *token;  // that both sides know
  bool print_token;   // a target's is of its own making: it prints the initiator's command
  const char *lend;   // the largest buffer that a target lends; NULL: as large as there is room for
  const char *sizes;  // "8,4KB,1MB"
  enum p2p_op op;
  enum p2p_memory memory;
  uint32_t gpu;
  uint32_t target_gpu; // of a local target, or P2P_GPU_OTHER
  bool one_gpu;        // for both ends is what the caller named, and meant
  const char *path;    // of a file, "bucket/key" of an object
  bool overwrite;      // what is at `path` already
  uint32_t iterations, warmup, depth;
  bool bidirectional, no_check;
  const char *transport;
  uint32_t timeout_ms;
  uint32_t startup_timeout_s; // so long an initiator tries to reach a target; 0: once
  uint32_t initiators;        // the target serves so many at least; 0: one
  bool forever;               // the target serves one initiator after the other
  enum p2p_format format;
  const char *html, *prometheus; // files for a page and for a node exporter, by who has the results; NULL: none
  bool quiet, color, unicode;
};

enum { P2P_MAX_SIZES = 64, P2P_GPU_OTHER = 64, P2P_REASON = 512 };

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
  uint32_t iterations;
  struct histogram latency; // ns, of one after the other; a notification: half of its round trip
  uint32_t depth;           // transfers under way at once when the two below were measured
  double per_second;        // transfers that ended in a second
  double gbps;              // their bytes, 1e9 a second; 0: a notification, which has none worth counting
  double peer_gbps;         // likewise of the peer's, in the same window; 0: not bidirectional
  double window_s;          // in which the two were measured; 0: as long as the iterations took
  bool checked;             // every byte was
  char transport[32];
  struct limits_bound bound; // of the rates; `gbps` negative: not known
  double percent;            // of it; negative: not known
  char refused[P2P_REASON];  // why the rates are not to be believed, which are 0 then; or ""
};

// Files and objects: measured against this process's own memory, without a peer.
bool p2p_is_storage(enum p2p_memory memory);
// INVALID: options that do not go together, or a transport that cannot serve.
int p2p_check(const struct p2p_config *config);

// Each returns 0 or a code with its sentence. DATA: bytes were not what they should be. CANCELED: a signal came
// (base/signal/stop.h). P2P_REFUSED: all was measured, and some of it cannot be true, as the report says.
enum { P2P_REFUSED = 1 };
int p2p_run(const struct p2p_config *config);
int p2p_storage(const struct p2p_config *config, const struct p2p_sizes *sizes);
int p2p_target(const struct p2p_config *config, int port_out);
int p2p_initiator(const struct p2p_config *config, const struct p2p_sizes *sizes);

#endif
