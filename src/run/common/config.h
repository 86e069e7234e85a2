// All options of `weft elastic`. The option table of the command fills it.
#ifndef RUN_COMMON_CONFIG_H
#define RUN_COMMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/ep.h>

// How long a request to the store may take: a connection that died without a word costs less than half a lease's life.
enum { RUN_REQUEST_MS = 3000 };

// What a negative rank of the plan does: kills itself, leaves, or runs on until it is lost from outside.
enum run_negative { RUN_NEGATIVE_KILL, RUN_NEGATIVE_LEAVE, RUN_NEGATIVE_LOST };

// What the end of an agent is to the run: its end, too, or the loss of the ranks that ran there.
enum run_agents { RUN_AGENTS_FIXED, RUN_AGENTS_ELASTIC };

// What throughput mode checks in each phase, beside the operations that it times.
enum run_feature {
  RUN_FEATURE_PER_EXPERT,
  RUN_FEATURE_RANK_MAJOR,
  RUN_FEATURE_PACKED,
  RUN_FEATURE_ROUTES,       // kept: dispatches and combines by one, also after a change of view
  RUN_FEATURE_BIASES,       // added in a combine
  RUN_FEATURE_UNWEIGHTED,   // combines of rows as they are
  RUN_FEATURE_WEIGHTS_BACK, // row weights that go back in a combine
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
  enum run_agents agents; // whether they come and go while the run goes on
  bool others_come;       // the plan needs more slots than here: others bring them, each when it likes
  const char *store;      // --store, --etcd-server, WEFT_STORE: endpoints of a store that is there already
  const char *lead;       // --rank-server, --tcp-server: host (or host:port) of the lead node; this node follows
  const char *listen;     // address of the embedded store; NULL: 127.0.0.1, or all where others come
  uint16_t store_port; // of the embedded store, this node's or the lead's; 0: any free one (9999 when other nodes are
                       // expected)
  const char *token;   // of the store; NULL: none for a store that is there already, a random one for an embedded one
  const char *ca_file, *cert_file, *key_file, *user, *password; // of etcd
  const char *job;                                              // name of the job in the store; default "elastic"
  uint32_t num_tokens;                                          // 128
  uint32_t experts_per_rank;                                    // 2
  uint32_t hidden;                                              // 7168
  uint32_t topk;                                                // 8
  enum weft_ep_dtype dtype;                                     // default bf16
  enum weft_ep_combine_dtype combine_dtype;                     // default bf16
  enum weft_ep_layout layout;                                   // per-expert
  enum weft_ep_mode mode;                                       // by num_tokens, as the library does
  uint32_t window_bytes;                                        // throughput: of a peer; 0: the library's default
  uint32_t alignment;                                           // of the packed parts of experts; 0: 1
  uint32_t processors;        // throughput on GPUs: of each kernel, at most; 0: the library's default
  uint32_t left_out;          // RUN_FEATURE_*, a bit each: what the lead found the library without
  enum weft_ep_memory memory; // AUTO: the lead decides, HOST or CUDA afterwards
  bool share_gpus;            // on this node several ranks may have one GPU
  uint32_t timeout_ms;        // of an operation; default 5,000
  uint32_t startup_timeout_s; // a rank that is launched must be active by then; default 60
  uint32_t iterations;        // timed operations per phase; default 20
  uint32_t warmup;            // untimed ones before; default 3
  uint64_t seed;
  bool validate_phase_failures; // judge every operation of a phase with a planned loss until the view is agreed on
  bool digests;                 // every operation's result, for comparison with another run's
  enum run_negative negative;
  const char *run_dir;                   // default weft-run/<date>-<time>-<run>
  const char *metrics;                   // --metrics: HOST:PORT at which this node serves /metrics; NULL: it does not
  const char *metrics_bearer_file;       // --metrics-bearer-file; NULL: none is written
  const char *html;                      // --html: file for a page with pictures, made by the lead; NULL: none
  const char *prometheus;                // --prometheus: file for a node exporter, likewise
  bool json;                             // results.json on standard output instead of the report
  bool quiet;                            // no progress
  struct run_given given[RUN_MAX_GIVEN]; // what a follower does not use is compared with the lead's
  uint32_t num_given;
  bool color, unicode; // of the report on standard output: what struct report_options says
  size_t width;
};

// Runs the plan as lead node, or follows one. Returns the exit status of the tool (0, 1, 2, 3, 4, 5, 124, or 128 + the
// signal that asked it to stop), having said on standard error what was wrong. Leaves SIGINT, SIGTERM, SIGHUP and
// SIGUSR1 blocked: the process is to end with that status.
int run_elastic(const struct run_config *config);

// The rank process: what a node starts, `weft rank` in the tool. Reads what it needs from the environment and the
// store.
int run_rank_main(int argc, char **argv);

// The options of a group that follow from the configuration: its sizes, types, mode and memory. What else a rank says
// of itself (store, rank, founders, capacity, GPU) is the caller's to add.
struct weft_ep_options run_ep_options(const struct run_config *config);

#endif
