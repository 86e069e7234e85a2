// All options of `weft elastic`. The option table of the command fills it.
#ifndef RUN_COMMON_CONFIG_H
#define RUN_COMMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

// Time limit of a request to the store: a connection that broke without notice costs less than half the life of a
// lease.
enum { RUN_REQUEST_MS = 3000 };

// What a negative rank of the plan does: it kills itself, leaves, or runs until it is lost from outside.
enum run_negative { RUN_NEGATIVE_KILL, RUN_NEGATIVE_LEAVE, RUN_NEGATIVE_LOST };

// What the end of an agent means for the run: the end of the run, or the loss of the ranks of that agent.
enum run_agents { RUN_AGENTS_FIXED, RUN_AGENTS_ELASTIC };

// Features of throughput mode that are checked in each phase, in addition to the timed operations.
enum run_feature {
  RUN_FEATURE_PER_EXPERT,
  RUN_FEATURE_RANK_MAJOR,
  RUN_FEATURE_PACKED,
  RUN_FEATURE_ROUTES,       // kept routes: dispatches and combines with a kept route, also after a change of view
  RUN_FEATURE_BIASES,       // added in a combine
  RUN_FEATURE_UNWEIGHTED,   // combines of unweighted rows
  RUN_FEATURE_WEIGHTS_BACK, // row weights that a combine sends back
  RUN_NUM_FEATURES,
};

// A field of the configuration that the command line gives.
struct run_given {
  const char *option;
  size_t offset;
};

enum { RUN_MAX_GIVEN = 64 };

struct run_config {
  const char *plan;       // path of the plan; a lead node needs it or `plan_text`
  const char *plan_text;  // the plan itself, when `plan` is NULL: the tool's default plan
  uint32_t num_processes; // process slots of this node; 0: as many as the plan ever has live at once
  uint32_t num_agents;    // nodes that the lead waits for, itself included; 0: 1, or as many as may come
  enum run_agents agents; // whether agents may come and go during the run
  bool others_come;       // the plan needs more slots than this node has: other nodes bring them, at any time
  const char *store;      // --store, --etcd-server, WEFT_STORE: endpoints of an existing store
  const char *lead;       // --rank-server, --tcp-server: host (or host:port) of the lead node; this node follows
  const char *listen;  // address of the embedded store; NULL: 127.0.0.1, or all addresses if other nodes are expected
  uint16_t store_port; // of the embedded store, this node's or the lead's; 0: any free one (9999 when other nodes are
                       // expected)
  const char *token;   // of the store; NULL: no token for an existing store, a random one for an embedded store
  const char *ca_file, *cert_file, *key_file, *user, *password; // of etcd
  const char *job;                                              // name of the job in the store; default "elastic"
  uint32_t num_tokens;                                          // 128
  uint32_t experts_per_rank;                                    // 2
  uint32_t hidden;                                              // 7168
  uint32_t topk;                                                // 8
  enum weft_ep_dtype dtype;                                     // default bf16
  enum weft_ep_combine_dtype combine_dtype;                     // default bf16
  enum weft_ep_layout layout;                                   // per-expert
  enum weft_ep_mode mode;                                       // default: depends on num_tokens, as in the library
  uint32_t window_bytes;                                        // throughput: of a peer; 0: the library's default
  uint32_t alignment;                                           // of the packed parts of experts; 0: 1
  uint32_t processors;          // throughput on GPUs: of each kernel, at most; 0: the library's default
  uint32_t operations_per_step; // at least 1
  uint32_t left_out;            // RUN_FEATURE_*, one bit each: features that the lead found missing in the library
  enum weft_ep_memory memory;   // AUTO: the lead decides, HOST or CUDA afterwards
  bool share_gpus;              // several ranks of this node may use one GPU
  uint32_t timeout_ms;          // of an operation; default 5,000
  uint32_t startup_timeout_s;   // time in which a launched rank must become active; default 60
  uint32_t iterations;          // timed operations per phase; default 20
  uint32_t warmup;              // untimed ones before; default 3
  uint64_t seed;
  bool validate_phase_failures; // judge every operation of a phase with a planned loss until the view is agreed on
  bool digests;                 // write a digest of every operation's result, for comparison with another run
  enum run_negative negative;
  const char *run_dir;                   // default weft-run/<date>-<time>-<run>
  const char *metrics;                   // --metrics: HOST:PORT at which this node serves /metrics; NULL: it does not
  const char *metrics_bearer_file;       // --metrics-bearer-file; NULL: none is written
  const char *html;                      // --html: file for a page with pictures, made by the lead; NULL: none
  const char *prometheus;                // --prometheus: file for a node exporter, made by the lead; NULL: none
  bool json;                             // results.json on standard output instead of the report
  bool quiet;                            // show no progress and no lines of ranks
  struct run_given given[RUN_MAX_GIVEN]; // settings that a follower does not use are compared with the lead's
  uint32_t num_given;
  bool color, unicode; // for the report on standard output: as in struct report_options
  size_t width;
};

// Runs the plan as lead node, or follows one. Returns the exit status of the tool (0, 1, 2, 3, 4, 5, 124, or 128 + the
// signal that requested the stop), and writes the reason of a failure, or "", into error[cap]. It leaves SIGINT,
// SIGTERM, SIGHUP and SIGUSR1 blocked: the process should end with that status.
int run_elastic(const struct run_config *config, char *error, size_t cap);

// The rank process, which a node starts: `weft rank` in the tool. It reads its task from the environment and the store.
int run_rank_main(int argc, char **argv);

// The options of a group that follow from the configuration: its sizes, types, mode and memory. The caller has to add
// the other options (store, rank, founders, capacity, GPU).
struct weft_ep_options run_ep_options(const struct run_config *config);

// After weft_ep_open() has failed with these options: puts the option --window before an error of window_bytes; returns
// `err`.
int run_ep_open_failed(int err);

#endif
