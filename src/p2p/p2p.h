// weft p2p: transfers between two processes, or between memory and storage, checked and measured.
//
// The target lends a buffer. The initiator connects to the target by a socket and gives the size of the buffer. Then,
// for each size, it writes to the buffer, reads from it and exchanges notifications. All messages between the two are
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
  bool print_token;   // the target made the token itself, so it prints the initiator's command
  const char *lend;   // the largest buffer that a target lends; NULL: as large as the host has room for
  const char *sizes;  // "8,4KB,1MB"
  enum p2p_op op;
  enum p2p_memory memory;
  uint32_t gpu;
  uint32_t target_gpu; // of a local target, or P2P_GPU_OTHER
  bool one_gpu;        // the caller named the GPUs, so that one GPU at both ends is intended
  const char *path;    // path of a file, or "bucket/key" of an object
  bool overwrite;      // an existing file or object at `path` may be overwritten
  uint32_t iterations, warmup, depth;
  bool bidirectional, no_check;
  const char *transport;
  uint32_t timeout_ms;
  uint32_t startup_timeout_s; // how long an initiator tries to reach a target; 0: it tries once
  uint32_t initiators;        // the target serves at least so many; 0: one
  bool forever;               // the target serves one initiator after the other
  enum p2p_format format;
  const char *html, *prometheus; // files of the side that has the results: a page, a node exporter's text; or NULL
  bool quiet, color, unicode;
};

enum { P2P_MAX_SIZES = 64, P2P_GPU_OTHER = 64, P2P_REASON = 512 };

struct p2p_sizes {
  uint64_t bytes[P2P_MAX_SIZES];
  uint32_t count;
  uint64_t largest;
};

// INVALID: the error says which size is wrong, and what would be right.
int p2p_sizes_parse(const char *text, struct p2p_sizes *sizes);
// "64 KiB"; into out[cap], which it returns.
const char *p2p_size_text(uint64_t bytes, char *out, size_t cap);

// How large each side's buffer is to be.
uint64_t p2p_buffer_bytes(const struct p2p_config *config, const struct p2p_sizes *sizes);

// The result of one size and operation.
struct p2p_result {
  enum p2p_op op;
  uint64_t bytes;
  uint32_t iterations;
  struct histogram latency; // ns, one transfer after the other; for a notification half of its round trip
  uint32_t depth;           // transfers under way at once when the two below were measured
  double per_second;        // transfers that ended in a second
  double gbps;              // their bytes, in 1e9 a second; 0 for a notification, whose few bytes are not counted
  double peer_gbps;         // the same for the peer's transfers, in the same window; 0: not bidirectional
  double window_s;          // the time in which both rates were measured; 0: the time of the iterations
  bool checked;             // every byte was compared
  char transport[32];
  char uses[WEFT_AGENT_MAX_DETAIL]; // of the peer: see struct weft_peer_info
  struct limits_bound bound;        // of the rates; `gbps` negative: not known
  double percent;                   // of the bound; negative: not known
  char refused[P2P_REASON];         // why the rates cannot be true (they are 0 then); or ""
};

// Files and objects: measured against this process's own memory, without a peer.
bool p2p_is_storage(enum p2p_memory memory);
// INVALID: options that do not go together, or a transport that cannot serve.
int p2p_check(const struct p2p_config *config);

// Each returns 0 or a code with its sentence. DATA: bytes differ from what was written. CANCELED: a signal came
// (base/signal/stop.h). P2P_REFUSED: everything was measured, but some rates cannot be true; the report names them.
enum { P2P_REFUSED = 1 };
int p2p_run(const struct p2p_config *config);
int p2p_storage(const struct p2p_config *config, const struct p2p_sizes *sizes);
int p2p_target(const struct p2p_config *config, int port_out);
int p2p_initiator(const struct p2p_config *config, const struct p2p_sizes *sizes);

#endif
