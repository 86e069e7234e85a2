// A client's watches: one thread drives all of them (watch.c); each is a small state machine (follow.c).
#ifndef STORE_CLIENT_WATCH_H
#define STORE_CLIENT_WATCH_H

#include "store/client/client.h"
#include "store/client/http.h"

// The state of a watch. Each state ends at the watch's `due_ns` unless something ends it earlier.
enum client_phase {
  CLIENT_WAITING,   // between attempts; then: begins one
  CLIENT_TOKEN,     // gets a token from etcd; then: the attempt has failed, as for the next two states
  CLIENT_PROBING,   // asks for the store's revision
  CLIENT_OPENING,   // the stream's request was sent, the watch is not created yet
  CLIENT_FOLLOWING, // receives events; then: opens the stream anew, since nothing was received for so long
};

struct client_watch {
  struct weft_store_watch base;
  struct client_watcher *watcher;
  struct client_watch *next_watch;
  char *prefix;
  weft_store_watch_fn fn;
  void *arg;

  // guarded by the watcher's lock
  bool closed;      // its function is called no more
  bool released;    // weft_store_watch_close() needs it no more; the thread frees it
  bool established; // it was in FOLLOWING at least once
  int failure;      // why it is not established: set when the first attempt at every endpoint has failed
  char failure_text[512];

  // used by the thread only
  enum client_phase phase;
  uint64_t due_ns;
  uint64_t backoff_ns;
  uint64_t opened_ns; // when FOLLOWING began
  CURL *handle;
  bool active; // curl has the handle
  struct client_transfer transfer;
  struct text body;
  size_t scanned;  // leading bytes of the transfer's body that have no end of a line
  size_t endpoint; // endpoint of this attempt
  size_t attempts; // attempts before it was first established
  bool renewed;    // the token of the last attempt was refused, so that this one has a new token
  int64_t next;    // first revision not delivered as a whole yet; 0: the next event from now on
  size_t begun;    // events of that revision that were delivered: a message had only the first ones
  size_t repeated; // those of them that the present stream has sent again
  int64_t seen;    // a revision that the store has reached
  uint64_t cluster;
  bool lost;  // LOST was delivered, RESUMED not yet
  bool reset; // RESET is to be delivered
  bool probe; // the store named a lower revision than it had reached: check whether that is true
};

struct client_watcher {
  struct client *client;
  CURLM *multi;
  pthread_t thread;
  pthread_mutex_t lock;   // guards what follows
  pthread_cond_t changed; // on CLOCK_MONOTONIC
  struct client_watch *watches;
  struct client_watch *calling; // the watch whose callback is running
  bool stopping;
};

// Calls the watch's function, unless the watch is closed.
void client_watch_deliver(struct client_watch *watch, const struct weft_store_event *event);

// Handles received bytes and due events. Only the watcher's thread calls this and the next functions.
void client_follow_step(struct client_watch *watch, uint64_t now_ns);

// The current request has ended.
void client_follow_done(struct client_watch *watch, CURLcode code);

// Ends the current request; client_watch_free() frees the watch.
void client_follow_end(struct client_watch *watch);

#endif
