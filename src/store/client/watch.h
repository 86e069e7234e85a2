// A client's watches: one thread carries all of them (watch.c), each is a small state machine (follow.c).
#ifndef STORE_CLIENT_WATCH_H
#define STORE_CLIENT_WATCH_H

#include "store/client/client.h"
#include "store/client/http.h"

// What a watch is doing. Each state ends at the watch's `due_ns` if nothing ends it before.
enum client_phase {
  CLIENT_WAITING,   // between attempts; then: begin one
  CLIENT_TOKEN,     // asking etcd for a token; then: the attempt has failed, as for the next two
  CLIENT_PROBING,   // asking for the store's revision
  CLIENT_OPENING,   // the stream's request is out, the watch is not created
  CLIENT_FOLLOWING, // events flow; after the limit: open the stream anew, since nothing was received for so long
};

struct client_watch {
  struct weft_store_watch base;
  struct client_watcher *watcher;
  struct client_watch *next_watch;
  char *prefix;
  weft_store_watch_fn fn;
  void *arg;

  // guarded by the watcher's lock
  bool closed;      // the caller has given it back; the thread frees it
  bool established; // it has been followed
  int failure;      // why it is not established: set when the first attempt at every endpoint has failed
  char failure_text[512];

  // the thread's own
  enum client_phase phase;
  uint64_t due_ns;
  uint64_t backoff_ns;
  uint64_t opened_ns; // when FOLLOWING began
  CURL *handle;
  bool active; // the handle is with curl
  struct client_transfer transfer;
  struct text body;
  size_t scanned;  // bytes of the transfer's body that hold no line's end
  size_t endpoint; // of this attempt
  size_t attempts; // before it was first established
  int64_t next;    // first revision not delivered yet; 0: whatever comes from now on
  int64_t seen;    // a revision that the store has reached
  uint64_t cluster;
  bool lost;  // LOST was delivered, RESUMED not yet
  bool reset; // RESET is to be delivered
  bool probe; // the store named a lower revision than it had reached: find out whether that is so
};

struct client_watcher {
  struct client *client;
  CURLM *multi;
  pthread_t thread;
  pthread_mutex_t lock;   // guards what follows
  pthread_cond_t changed; // on CLOCK_MONOTONIC
  struct client_watch *watches;
  struct client_watch *calling; // whose callback is running
  bool stopping;
};

// Calls the watch's function, unless the watch is closed.
void client_watch_deliver(struct client_watch *watch, const struct weft_store_event *event);

// Takes what has come in and what is due. Thread of the watcher only, like the next ones.
void client_follow_step(struct client_watch *watch, uint64_t now_ns);

// The request at hand has ended.
void client_follow_done(struct client_watch *watch, CURLcode code);

// Ends what is under way; client_watch_free() frees the watch.
void client_follow_end(struct client_watch *watch);

#endif
