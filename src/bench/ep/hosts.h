// The other hosts of a benchmark: the first rank of this host, and the measurements of all ranks.
#ifndef BENCH_EP_HOSTS_H
#define BENCH_EP_HOSTS_H

#include "bench/common/store.h"
#include "bench/ep/found.h"
#include "meet/meet.h"

struct bench_ep_hosts {
  struct bench_store store;
  struct meet *meet; // NULL: this host is the only one
  bool met;          // all hosts have arrived
  uint32_t size;     // hosts
  uint32_t index;    // this one's number
  uint32_t local_ranks;
  uint32_t timeout_ms; // time in which the other hosts must reach the end of a measurement, too
  uint64_t stopped_ns; // when a wait for other hosts first noticed a signal; 0: not yet
  char id[24];         // id of this run, so that its keys differ from those of earlier runs
};

// Checks whether that many ranks can be divided among hosts with --local-ranks each. INVALID.
int bench_ep_hosts_check(const struct bench_ep_config *config, uint32_t max_ranks);

// Opens the store, and meets the other hosts if there are any. `settings`: settings that must be equal on all hosts.
// Writes the store's data into the board for the ranks. Starts threads. INVALID: settings differ.
int bench_ep_hosts_open(struct bench_ep_hosts *hosts, const struct bench_options *options,
                        const struct bench_ep_config *config, uint32_t max_ranks, const json_t *settings,
                        const char *host, struct bench_ep_board *board);
// `err`, `why`: the failure of this host, which is reported to the others; 0: no failure.
void bench_ep_hosts_close(struct bench_ep_hosts *hosts, int err, const char *why);

// Name of a host, by its number. `own`: of this one.
const char *bench_ep_hosts_name(const struct bench_ep_hosts *hosts, uint32_t index, const char *own);

// Returns the error of another host that has failed; 0: none has failed. Does not wait.
int bench_ep_hosts_failed(const struct bench_ep_hosts *hosts);

// Adds the results of the other hosts to those of this host. Deletes the keys of the measurement's group.
int bench_ep_hosts_gather(struct bench_ep_hosts *hosts, const struct bench_ep_command *command, uint32_t num_times,
                          struct bench_ep_found *found);

#endif
