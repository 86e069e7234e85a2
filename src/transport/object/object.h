// The parts of the transport `object`. worker.c: the table; memory.c: regions; request.c: checks and posts requests;
// settings.c: server and credentials; plan.c: cuts a request into parts; lane.c: chooses the next exchange; exchange.c:
// one exchange with the server; sign.c: its signature; loop.c: runs all exchanges; answer.c: parses answers; outcome.c:
// handles an exchange that has ended; settle.c: sets the result of the pieces of its request.
#ifndef TRANSPORT_OBJECT_OBJECT_H
#define TRANSPORT_OBJECT_OBJECT_H

#include <curl/curl.h>

#include "transport/object/answer.h"
#include "transport/storage/storage.h"

enum {
  OBJECT_MAX_PARTS = 10000, // parts of a multipart upload, S3's limit
  OBJECT_MAX_PARALLEL = 256,
  // Bytes of settings. The endpoint: a name of DNS has 253, to which a scheme and a port come.
  OBJECT_MAX_ENDPOINT = 280,
  OBJECT_MAX_REGION = 63,
  OBJECT_MAX_SECRET = 251,
};

struct object_settings {
  char *endpoint; // "https://host:port", without a '/' at the end; NULL: Amazon's for the region
  char *region;
  char *key, *secret, *token; // key NULL: requests are not signed
  char *ca_file;
  bool virtual_host; // the bucket is part of the host name, if its name can be
  uint64_t part_bytes, parallel, retries, backoff_ms, connect_ms, stall_s, timeout_s;
};

struct object_region {
  struct storage_region base;
  char *url; // of the object; NULL: host memory
};

// A run of bytes of an object that one exchange moves.
struct object_part {
  uint64_t offset, length;
  uint32_t first; // the entry of `order` that has its first byte
  char etag[64];  // WRITE: the server's entity tag of it
};

// An object of a request.
struct object_target {
  struct object_region *region;
  uint32_t first_entry, num_entries; // of `order`
  uint32_t first_part, num_parts;
  uint32_t next_part, parts_done;
  bool opening; // nothing else begins until the first answer, which has the version (READ) or the upload's id (WRITE)
  bool opened;
  int err;                // if not 0, nothing more begins
  char etag[OBJECT_ETAG]; // READ: the version that all its parts have to have
  char upload[1024];      // WRITE: id of a multipart upload, encoded for a URL; "": there is none
};

struct object_request {
  struct storage_request base;
  uint32_t *order; // the pieces by object and offset
  struct object_part *parts;
  struct object_target *targets;
  uint32_t num_targets, num_parts;
  uint32_t next_target;
  uint32_t running; // lanes
};

enum object_verb { OBJECT_GET, OBJECT_PUT, OBJECT_CREATE, OBJECT_PUT_PART, OBJECT_COMPLETE, OBJECT_ABORT, OBJECT_HEAD };

// An exchange, and the handle for it; a worker has a fixed number.
struct object_lane {
  struct object_worker *worker;
  CURL *easy;
  struct curl_slist *headers;
  bool busy, added;
  enum object_verb verb;
  struct object_request *own; // NULL: the request has ended (ABORT, and CREATE to be aborted)
  struct object_target *target;
  struct object_part *part;
  char *object_url; // the lane's
  char upload[1024];
  char *body; // COMPLETE
  uint32_t attempt;
  uint64_t began_ns, retry_ns; // retry_ns 0: under way
  char failed[120];            // what a request that is cancelled now tells of the last attempt; "": there was none
  // The answer so far:
  struct object_answer answer;
  uint64_t moved;    // bytes of the part
  uint32_t entry;    // their position: index in `order`
  uint64_t in_piece; // and offset in that piece
  int refused;       // code of a callback that ended it; `why` has the text
  char why[160];
};

// An upload that has to be aborted when a lane is free.
struct object_abort {
  struct object_abort *next;
  char *object_url;
  char upload[1024];
};

struct object_worker {
  struct storage_worker base;
  struct object_settings set;
  CURLM *multi;
  int epoll_fd, timer_fd;
  bool armed;       // somebody may sleep on epoll_fd
  uint64_t curl_ns; // when to call curl; 0: no time limit
  struct object_lane *lanes;
  uint32_t busy;
  struct object_abort *aborts;
};

// settings.c
int object_settings_read(struct object_settings *set, const struct transport_options *options);
void object_settings_free(struct object_settings *set);
// The URL of "bucket/key"; INVALID: it does not have that form.
int object_url(const struct object_settings *set, const char *path, char **url);
// Percent-encodes all characters except letters, digits, "-._~" and those in `keep`. False: it does not fit.
bool object_encode(const char *text, const char *keep, char *out, size_t cap);

// plan.c
int object_plan(struct object_request *own, const struct object_settings *set);
void object_plan_free(struct object_request *own);

// memory.c
int object_reg(struct transport_worker *worker, const struct transport_memory *memory,
               struct transport_region **region);
void object_unreg(struct transport_region *region);
void object_release(struct transport_remote *remote);
void object_region_drop(struct storage_region *region); // frees it

// request.c
int object_prepare(struct transport_request *request);
void object_unprepare(struct transport_request *request);
int object_post(struct transport_request *request);

// query.c
int object_query(struct transport_worker *worker, const char *path, uint32_t timeout_ms, uint64_t *length);

// lane.c
bool object_can_issue(const struct object_worker *worker);
void object_issue(struct object_worker *worker); // starts exchanges in free lanes
// Begins another exchange in a lane that is in use.
void object_lane_next(struct object_lane *lane, enum object_verb verb);
void object_lane_free(struct object_lane *lane);
// Aborts the upload of an object that will not be completed, as soon as a lane is free.
void object_upload_abort(struct object_worker *worker, struct object_target *target);

// outcome.c
// The exchange in the lane has ended, with curl's result.
void object_lane_ended(struct object_lane *lane, CURLcode result);
void object_cancel(struct transport_request *request);
// Whether the exchange failed, by curl's result and the answer: 0, or the code, with the text in `why`. `*again`: a
// later attempt may succeed.
int object_lane_judge(const struct object_lane *lane, CURLcode result, bool *again, char *why, size_t cap);
// The pause after the failure of attempt `attempt`, counted from 0. It doubles up to a limit, and half of it is random.
uint64_t object_backoff_ns(const struct object_settings *set, uint64_t attempt);

// settle.c
// Counts a part in its pieces: as moved (err 0), or as failed.
void object_part_settle(struct object_request *own, const struct object_target *target, const struct object_part *part,
                        int err);
// The whole object has moved.
void object_target_moved(struct object_request *own, const struct object_target *target);
// Fails the whole object: no other part of it begins, and those that have not arrived have failed.
void object_target_fail(struct object_request *own, struct object_target *target, int err);
// Ends the request, if nothing of it is under way or waits to begin.
void object_request_finish(struct object_request *own);
// The object's path, for error texts.
const char *object_target_path(const struct object_target *target);

// exchange.c
int object_exchange_setup(struct object_lane *lane); // for another attempt
void object_exchange_clear(struct object_lane *lane);
// Sets `refused` for an answer that came with too few bytes of the part, or after too few.
void object_exchange_check_short(struct object_lane *lane);

// "Name: value" among the headers of the request. False: no memory.
bool object_add_header(struct object_lane *lane, const char *name, const char *value);

// sign.c: adds Host, x-amz-date and Authorization; all other headers of the request are set already. `url` is the URL
// as it is sent. False: no memory.
bool object_sign(struct object_lane *lane, const char *verb, const char *url);

// loop.c
int object_loop_open(struct object_worker *worker);
void object_loop_close(struct object_worker *worker);
void object_loop_start(struct object_lane *lane); // the exchange that is set up in it
void object_loop_stop(struct object_lane *lane);  // nothing of it is touched any more
uint32_t object_loop_run(struct object_worker *worker);
int object_loop_arm(struct object_worker *worker);

#endif
