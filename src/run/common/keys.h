// The keys of a run in the store. Everything is bound to the run's lease, except agent/<n> of a follower, which is
// bound to the follower's own lease: if the key disappears, the agent is gone.
//
//   /weft/<job>/run            the live run of the job: JSON {run, host, pid, lease, agents, config, plan}
//   /weft/<job>/<run>/ the keys of the run; the keys of the ranks' group are below ep/
//     agent/<n>                JSON {host, boot, pid, lease, slots, gpus, share_gpus, processors, cpus, leaving};
//                              0 is the lead
//     launch/<phase>/<rank>    agent that launches that rank for that phase: JSON {agent}
//     current                  JSON {phase, lost}: the phase that has begun (the number of phases: the end), and the
//                              ranks that the run has lost with their agents (current.h)
//     start/<phase>/<rank>     the rank has completed the transition into the phase
//     record/<phase>/<rank>    the rank has completed its part of the phase: its results (phase_record.h)
//     exit/<phase>/<rank>      its process has ended: JSON {planned, status, kill_ns, boot, what}
//     still/<phase>/<rank>     its process stands still: JSON {agent, what}; "what" is empty when it goes on again
//     fail/<who>               reason of a rank or an agent to end the run: JSON {status, error}
//     restored                 all agents are back in a store that had forgotten the run: the run's new lease
//     end                      the run is over: JSON {status, error}; agents end
#ifndef RUN_COMMON_KEYS_H
#define RUN_COMMON_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RUN_JOB_MAX = 63, RUN_UUID_SIZE = 37, RUN_KEY_SIZE = 192, RUN_CPUS_SIZE = 256 };

struct run_keys {
  char live[RUN_KEY_SIZE];   // /weft/<job>/run
  char prefix[RUN_KEY_SIZE]; // /weft/<job>/<run>/
};

// INVALID: a job name that is empty, too long, or has other characters than letters, digits, '.', '_' and '-'.
int run_keys_check_job(const char *job);

// `job` has been checked.
void run_keys_init(struct run_keys *keys, const char *job, const char *run);

// Writes prefix + the formatted rest.
void run_key(char out[RUN_KEY_SIZE], const struct run_keys *keys, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Whether `key` is prefix + "<kind>/<first>/<second>", as run_key() writes it; if so, writes the two numbers.
bool run_key_pair(const struct run_keys *keys, const char *key, const char *kind, uint32_t *first, uint32_t *second);

// The part of the key after prefix + `kind` + "/"; NULL: `key` begins differently.
const char *run_key_tail(const struct run_keys *keys, const char *key, const char *kind);

// Whether `key` is prefix + `name`.
bool run_key_is(const struct run_keys *keys, const char *key, const char *name);

#endif
