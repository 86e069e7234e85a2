// The requests of an impatient client: how they are made, posted and cancelled, and what has to be true at their ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"
#include "transport/object/client.h"

enum { CANARY = 0xEE };

static void count_end(struct transport_request *request) {
  struct client_request *one = request->arg;
  one->ends++;
}

void client_message(void *arg, const void *bytes, size_t size) {
  struct client *client = arg;
  uint64_t number = 0;
  memcpy(&number, bytes, size < sizeof number ? size : sizeof number);
  for (uint32_t i = 0; i < CLIENT_REQUESTS; i++)
    client->requests[i].messages += client->requests[i].posted && client->requests[i].message == number;
}

// --- pieces ---

static void add_piece(struct client *client, struct client_request *one, struct client_object *object, uint64_t at,
                      uint64_t offset, uint64_t length) {
  uint32_t i = one->request.num_pieces++;
  one->objects[i] = object;
  one->pieces[i] = (struct transport_piece){client->memory, object->remote, (uintptr_t)one->bytes + at, offset, length};
}

// Runs of an object, one behind the other in memory: without gaps where it is to be written.
static uint64_t add_runs(struct client *client, struct client_request *one, struct client_object *object, uint64_t at) {
  bool whole = one->request.op == WEFT_TRANSFER_WRITE || client_draw(client, 3) == 0;
  uint32_t runs = 1 + client_draw(client, CLIENT_PIECES / 2);
  uint64_t room = (CLIENT_MOST - at) / runs, step = (object->size + runs - 1) / runs;
  for (uint64_t offset = 0; offset < object->size; offset += step) {
    uint64_t left = object->size - offset, length = left < step ? left : step;
    uint64_t skip = whole ? 0 : client_draw(client, (uint32_t)(length < 5000 ? length : 5000));
    length -= skip;
    if (!whole)
      length = length < room ? length : room;
    add_piece(client, one, object, at, offset + skip, length);
    at += length;
  }
  return at;
}

static void shuffle(struct client *client, struct client_request *one) {
  for (uint32_t i = one->request.num_pieces; i > 1; i--) {
    uint32_t k = client_draw(client, i);
    struct transport_piece piece = one->pieces[k];
    struct client_object *object = one->objects[k];
    one->pieces[k] = one->pieces[i - 1];
    one->objects[k] = one->objects[i - 1];
    one->pieces[i - 1] = piece;
    one->objects[i - 1] = object;
  }
}

static bool prepare(struct client *client, struct client_request *one) {
  struct client_object *first = &client->objects[client_draw(client, CLIENT_OBJECTS)];
  struct client_object *second = &client->objects[client_draw(client, CLIENT_OBJECTS)];
  one->request = (struct transport_request){
      .peer = client->peer,
      .op = first->written == 0 || client_draw(client, 3) == 0 ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ,
      .pieces = one->pieces,
      .status = one->status,
      .done = count_end,
      .arg = one};
  if (client_draw(client, 20) > 0) { // else it has only a message
    uint64_t at = add_runs(client, one, first, 0);
    if (second != first && second->size <= CLIENT_MOST - at && client_draw(client, 4) == 0)
      add_runs(client, one, second, at);
    shuffle(client, one);
  }
  if (one->request.num_pieces == 0 || client_draw(client, 2)) {
    one->request.message = &one->message;
    one->request.message_size = sizeof one->message;
  }
  client_begin(client);
  return client_may(client, "prepare", client->transport->prepare(&one->request), 0);
}

static bool is_write(const struct client_request *one) {
  return one->request.op == WEFT_TRANSFER_WRITE;
}

static uint8_t *local(const struct transport_piece *piece) {
  return (uint8_t *)(uintptr_t)piece->local_address;
}

// --- begin ---

// One request at a time writes an object, so that the order of writes is that of the posts.
static bool is_free(const struct client_request *one) {
  for (uint32_t i = 0; i < one->request.num_pieces; i++)
    if (is_write(one) && one->objects[i]->writers > 0)
      return false;
  return true;
}

static void use_objects(struct client_request *one, bool begins) {
  for (uint32_t i = 0; i < one->request.num_pieces; i++) {
    one->objects[i]->users += begins ? 1 : UINT32_MAX;
    if (is_write(one))
      one->objects[i]->writers += begins ? 1 : UINT32_MAX;
  }
}

static void fill(struct client *client, struct client_request *one) {
  one->serial = ++client->last_serial;
  for (uint32_t i = 0; i < one->request.num_pieces; i++) {
    const struct transport_piece *piece = &one->pieces[i];
    one->oldest[i] = one->objects[i]->written;
    if (!is_write(one)) {
      memset(local(piece), CANARY, piece->length);
      continue;
    }
    client_pattern(one->serial, piece->remote_address, piece->length, local(piece));
    one->objects[i]->posted = one->serial;
  }
}

// A request may be posted anew as it is.
static bool make_anew(struct client *client, struct client_request *one) {
  if (one->request.own && !one->peer_gone && client_draw(client, 3) == 0)
    return true;
  if (one->request.own)
    client->transport->unprepare(&one->request);
  one->request.own = NULL;
  one->peer_gone = false;
  return prepare(client, one);
}

bool client_request_start(struct client *client, struct client_request *one) {
  if (!make_anew(client, one))
    return false;
  if (!is_free(one))
    return true;
  fill(client, one);
  one->message = ++client->last_message;
  one->ends = one->messages = 0;
  one->cancelled = false;
  one->posted = true;
  one->posted_ns = clock_ns();
  use_objects(one, true);
  client_begin(client);
  return client_may(client, "post", client->transport->post(&one->request), 0);
}

bool client_request_cancel(struct client *client, struct client_request *one) {
  if (!one->cancelled)
    one->cancelled_ns = clock_ns();
  one->cancelled = true;
  client->cancels++;
  client_begin(client);
  client->transport->cancel(&one->request);
  return client_in_time(client, "cancel");
}

// --- end ---

static bool object_is_whole(const struct client_request *one, uint32_t i) {
  for (uint32_t k = 0; k < one->request.num_pieces; k++)
    if (one->objects[k] == one->objects[i] && one->status[k] != one->status[i])
      return false;
  return true;
}

static bool check_write(struct client *client, struct client_request *one) {
  for (uint32_t i = 0; i < one->request.num_pieces; i++) {
    if (!object_is_whole(one, i))
      return client_error(client, one->objects[i]->path, "its pieces were written in part");
    if (one->status[i] == 0)
      one->objects[i]->written = one->serial;
  }
  return true;
}

static bool has_bytes_of(struct client *client, const struct transport_piece *piece, uint64_t serial) {
  uint64_t begin = piece->length < 8192 ? piece->length : 8192; // most other versions differ here
  client_pattern(serial, piece->remote_address, begin, client->wanted);
  if (memcmp(client->wanted, local(piece), begin) != 0)
    return false;
  client_pattern(serial, piece->remote_address, piece->length, client->wanted);
  return memcmp(client->wanted, local(piece), piece->length) == 0;
}

// What a read has brought of an object is of one write, and of none that is older than the last one that had succeeded
// when the read began.
static bool is_one_version(struct client *client, const struct client_request *one, uint32_t first) {
  const struct client_object *object = one->objects[first];
  for (uint64_t serial = object->posted; serial > 0 && serial >= one->oldest[first]; serial--) {
    bool fits = true;
    for (uint32_t i = first; i < one->request.num_pieces && fits; i++)
      fits = one->objects[i] != object || one->status[i] != 0 || has_bytes_of(client, &one->pieces[i], serial);
    if (fits)
      return true;
  }
  return false;
}

static bool check_read(struct client *client, struct client_request *one) {
  for (uint32_t i = 0; i < one->request.num_pieces; i++) {
    if (one->status[i] == WEFT_ERR_NOT_FOUND && one->oldest[i] > 0)
      return client_error(client, one->objects[i]->path, "it was written, and is not found");
    if (one->status[i] == 0 && !is_one_version(client, one, i))
      return client_error(client, one->objects[i]->path,
                          "the bytes that were read are not of one write that was there");
    client->read += one->status[i] == 0;
  }
  return true;
}

static bool check_codes(struct client *client, const struct client_request *one, int state) {
  uint32_t may = CLIENT_MAY(UNREACHABLE) | CLIENT_MAY(PROTOCOL);
  char text[400];
  if (!is_write(one))
    may |= CLIENT_MAY(CONFLICT) | CLIENT_MAY(NOT_FOUND) | CLIENT_MAY(UNSUPPORTED);
  if (one->cancelled)
    may |= CLIENT_MAY(CANCELED);
  for (uint32_t i = 0; i <= one->request.num_pieces; i++) {
    int code = i < one->request.num_pieces ? one->status[i] : state;
    if (code < 0 && !(may >> -code & 1)) {
      snprintf(text, sizeof text, "%s ends with %s: %s", is_write(one) ? "a write" : "a read", weft_err_name(code),
               one->request.why);
      return client_error(client, one->request.num_pieces ? one->objects[0]->path : "a message", text);
    }
    if (state == 0 && code != 0)
      return client_error(client, "a request", "has succeeded, but one of its pieces has not");
  }
  if ((state == 0) != (one->request.why[0] == '\0'))
    return client_error(client, "a request", "has failed without a reason, or has one without a failure");
  return true;
}

static bool check_end(struct client *client, struct client_request *one, int state) {
  uint32_t messages = state == 0 && one->request.message_size > 0;
  if (one->ends != 1)
    return client_error(client, "a request", "its end was not reported once");
  if (one->messages != messages)
    return client_error(client, "a request", "its message was lost, or came twice or after a failure");
  client->failed += state != 0;
  client->wrote += state == 0 && is_write(one);
  return check_codes(client, one, state) && (is_write(one) ? check_write(client, one) : check_read(client, one));
}

bool client_request_check(struct client *client, struct client_request *one, bool *ended) {
  int state = one->posted ? atomic_load_explicit(&one->request.state, memory_order_acquire) : 0;
  uint64_t since = one->cancelled ? one->cancelled_ns : one->posted_ns;
  if (ended)
    *ended = one->posted && state != TRANSPORT_IN_FLIGHT;
  if (!one->posted)
    return true;
  if (state == TRANSPORT_IN_FLIGHT) {
    if (clock_ns() - since < CLIENT_LONGEST_MS * 1000000ull)
      return one->ends == 0 || client_error(client, "a request", "its end was reported before");
    return client_error(client, one->request.num_pieces ? one->objects[0]->path : "a message",
                        one->cancelled ? "does not end though it was cancelled" : "does not end");
  }
  bool good = check_end(client, one, state);
  one->posted = false;
  use_objects(one, false);
  return good;
}
