// The progress of a request through its pieces: advances behind bytes that were moved, and behind pieces that failed.
#include <stdarg.h>
#include <stdio.h>

#include "transport/shm/shm.h"

void shm_walk_fail(struct shm_walk *walk, int err, const char *format, ...) {
  if (walk->request->status)
    walk->request->status[walk->at] = err;
  if (walk->failure == 0) {
    va_list args;
    va_start(args, format);
    vsnprintf(walk->request->why, sizeof walk->request->why, format, args);
    va_end(args);
    walk->failure = err;
  }
  walk->at++;
  walk->offset = 0;
}

void shm_walk_advance(struct shm_walk *walk, uint64_t bytes) {
  const struct transport_request *request = walk->request;
  walk->request->moved += bytes;
  while (walk->at < request->num_pieces) {
    uint64_t left = request->pieces[walk->at].length - walk->offset;
    if (bytes < left) {
      walk->offset += bytes;
      return;
    }
    if (bytes == 0 && left != 0)
      return;
    bytes -= left;
    shm_walk_done(walk);
    if (bytes == 0)
      return;
  }
}

void shm_walk_fail_remote(struct shm_walk *walk, const struct shm_remote *remote, int err, const char *why) {
  while (walk->at < walk->request->num_pieces && walk->request->pieces[walk->at].remote == &remote->base)
    shm_walk_fail(walk, err, "piece %u: %s", walk->at, why);
}
