// Agents for tests, which record the events of their peers; and agents in separate processes, which tests stop and
// kill.
#ifndef TESTS_AGENT_CROWD_H
#define TESTS_AGENT_CROWD_H

#include <stdbool.h>
#include <sys/types.h>
#include <weft/agent.h>

enum { CROWD_EVENTS = 512 };

#define LOADED  WEFT_AGENT_EVENT_PEER_LOADED
#define UPDATED WEFT_AGENT_EVENT_PEER_UPDATED
#define LEFT    WEFT_AGENT_EVENT_PEER_LEFT
#define LOST    WEFT_AGENT_EVENT_PEER_LOST

struct crowd_event {
  enum weft_agent_event_kind kind;
  weft_peer_t peer;
  char name[WEFT_AGENT_MAX_NAME];
  char detail[200];
};

struct crowd_member {
  weft_agent_t *agent;
  struct crowd_event events[CROWD_EVENTS];
  size_t count;
};

// Options for tests: shm, heartbeats of 50 ms, and a patience of 2 s, which is enough on a loaded machine.
struct weft_agent_options crowd_options(const char *name);

// Opens an agent with these options, or fails the test.
void crowd_open(struct crowd_member *member, const struct weft_agent_options *options);
void crowd_close(struct crowd_member *member);

// Waits for the n-th event (from 1) of this kind and of the peer with this name, and returns it with its detail. If it
// does not arrive, fails the test, and prints the events that did.
struct crowd_event crowd_await(struct crowd_member *member, enum weft_agent_event_kind kind, const char *name,
                               size_t n);

// How many such events have arrived; name NULL: of any peer.
size_t crowd_count(struct crowd_member *member, enum weft_agent_event_kind kind, const char *name);

// The agent's metadata; free() frees it.
void *crowd_blob(weft_agent_t *agent, size_t *size);
// Makes `to` load the metadata of `from`.
weft_peer_t crowd_load(weft_agent_t *to, weft_agent_t *from);

// A process that runs `run(arg, in, out)` with two pipes and exits with its result. It is forked, so no other thread of
// this process may hold locks.
struct crowd_process {
  pid_t pid;
  int to, from; // its `in` and `out`
};
void crowd_start(struct crowd_process *process, int (*run)(void *arg, int in, int out), void *arg);
// Reads or writes all bytes, or fails the test.
void crowd_read(int fd, void *bytes, size_t size);
void crowd_write(int fd, const void *bytes, size_t size);
// Sends a blob after its size.
void crowd_send_blob(int fd, weft_agent_t *agent);
weft_peer_t crowd_take_blob(int fd, weft_agent_t *to);
// Kills the process if it runs, and reaps it. Returns its status as in waitpid(2).
int crowd_kill(struct crowd_process *process);
// Closes the process's input, which ends it, and reaps it: it has to exit with 0.
void crowd_end(struct crowd_process *process);

#endif
