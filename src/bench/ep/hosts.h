// The other hosts of a benchmark: where this one's ranks begin, and what the ranks of all measured.
#ifndef BENCH_EP_HOSTS_H
#define BENCH_EP_HOSTS_H

#include "bench/common/store.h"
#include "bench/ep/found.h"
#include "meet/meet.h"

struct bench_ep_hosts {
  struct bench_store store;
  struct meet *meet; // NULL: this host is the only one
  bool met;          // all hosts have come
  uint32_t size;     // hosts
  uint32_t index;    // this one's number
  uint32_t local_ranks;
  uint32_t timeout_ms; // in which the others must have come to the end of a measurement, too
  uint64_t stopped_ns; // when a wait for them has seen a signal first; 0: not yet
  char id[24];         // of this run: keys of one before are others
};

// Whether that many ranks can be spread over hosts with --local-ranks each. INVALID.
int bench_ep_hosts_check(const struct bench_ep_config *config, uint32_t max_ranks);

// Opens the store, and meets the other hosts where there are any. `settings`: what all must have alike. Fills what the
// board tells ranks of the store. Starts threads. INVALID: settings differ.
int bench_ep_hosts_open(struct bench_ep_hosts *hosts, const struct bench_options *options,
                        const struct bench_ep_config *config, uint32_t max_ranks, const json_t *settings,
                        const char *host, struct bench_ep_board *board);
// `err`, `why`: the failure of this host, which the others are told; 0: there is none.
void bench_ep_hosts_close(struct bench_ep_hosts *hosts, int err, const char *why);

// Name of a host, by its number. `own`: of this one.
const char *bench_ep_hosts_name(const struct bench_ep_hosts *hosts, uint32_t index, const char *own);

// The sentence of another host that has failed; 0: none has. Does not wait.
int bench_ep_hosts_failed(const struct bench_ep_hosts *hosts);

// Completes what was found on this host with what the others found. The keys of the measurement's group go.
int bench_ep_hosts_gather(struct bench_ep_hosts *hosts, const struct bench_ep_command *command, uint32_t num_times,
                          struct bench_ep_found *found);

#endif
