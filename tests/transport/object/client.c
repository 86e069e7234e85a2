// What an impatient client does: one random step after the other.
#include "transport/object/client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/time/clock.h"

enum {
  MOST_MS = 8,       // that a client sleeps
  SILENT_MS = 30000, // of a server, of which a client gets tired after two seconds, or five if it does not connect
};

bool client_error(struct client *client, const char *what, const char *why) {
  if (!client->error[0])
    snprintf(client->error, sizeof client->error, "life %u: %s: %s", client->life, what, why);
  return false;
}

uint32_t client_draw(struct client *client, uint32_t below) {
  return (uint32_t)(random_next(&client->random) % below);
}

// --- calls ---

void client_begin(struct client *client) {
  client->began_ns = clock_ns();
}

bool client_in_time(struct client *client, const char *call) {
  uint64_t took_ns = clock_ns() - client->began_ns;
  if (took_ns > client->longest_ns) {
    client->longest_ns = took_ns;
    snprintf(client->longest, sizeof client->longest, "%s", call);
  }
  return took_ns < CLIENT_LONGEST_MS * 1000000ull || client_error(client, call, "took too long");
}

bool client_may(struct client *client, const char *call, int rc, uint32_t may) {
  char why[300];
  if (rc == 0 || (rc < 0 && may >> -rc & 1))
    return client_in_time(client, call);
  snprintf(why, sizeof why, "%s: %s", weft_err_name(rc), weft_last_error());
  return client_error(client, call, why);
}

// --- open and close ---

static bool connect_peer(struct client *client) {
  char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  int rc = client->transport->address(client->worker, address, &size);
  rc = rc ? rc : client->transport->connect(client->worker, address, size, NULL, &client->peer);
  return client_may(client, "connect", rc, 0);
}

static bool open_worker(struct client *client) {
  char parallel[32], retries[32], backoff[32];
  snprintf(parallel, sizeof parallel, "parallel=%u", 1 + client_draw(client, 4));
  snprintf(retries, sizeof retries, "retries=%u", client_draw(client, 4));
  snprintf(backoff, sizeof backoff, "backoff_ms=%u", client_draw(client, 20));
  const char *const settings[] = {parallel, retries, backoff, "part_mib=5", "stall_s=2", "timeout_s=3", NULL};
  struct transport_options options = {
      .size = sizeof options, .on_message = client_message, .arg = client, .settings = settings};
  struct transport_memory memory = {.kind = WEFT_MEMORY_HOST,
                                    .address = client->bytes,
                                    .length = (uint64_t)CLIENT_REQUESTS * CLIENT_MOST,
                                    .fd = -1,
                                    .device = -1};
  client_begin(client);
  return client_may(client, "find", transport_find("object", &client->transport), 0) &&
         client_may(client, "open", client->transport->open(&options, &client->worker), 0) && connect_peer(client) &&
         client_may(client, "reg", client->transport->reg(client->worker, &memory, &client->memory), 0);
}

static bool is_quiet(struct client *client, bool *quiet) {
  *quiet = true;
  for (uint32_t i = 0; i < CLIENT_REQUESTS; i++) {
    if (!client_request_check(client, &client->requests[i], NULL))
      return false;
    *quiet = *quiet && !client->requests[i].posted;
  }
  return true;
}

// Once the server has no faults any more, no upload stays that was neither completed nor aborted.
static bool leave_nothing(struct client *client) {
  char path[64];
  uint64_t left = 1, until_ns = clock_deadline_ms(CLIENT_LONGEST_MS);
  bool quiet = false;
  int rc = 0;
  snprintf(path, sizeof path, "bucket/control/calm/%s", client->prefix);
  while (!quiet || rc != 0 || left > 0) {
    if (clock_passed(until_ns))
      return client_error(client, "an upload", rc ? weft_last_error() : "was neither completed nor aborted");
    client->transport->progress(client->worker);
    if (!is_quiet(client, &quiet))
      return false;
    rc = client->transport->query(client->worker, path, 5000, &left);
  }
  return true;
}

static bool close_worker(struct client *client, bool good) {
  if (good && client_draw(client, 2))
    good = leave_nothing(client);
  for (uint32_t i = 0; i < CLIENT_REQUESTS; i++)
    client->requests[i].cancelled = true;
  client_begin(client);
  client->transport->close(client->worker);
  client->worker = NULL;
  good = client_in_time(client, "close") && good;
  for (uint32_t i = 0; i < CLIENT_REQUESTS; i++) {
    struct client_request *one = &client->requests[i];
    if (one->posted && one->request.state == TRANSPORT_IN_FLIGHT)
      good = client_error(client, "a request", "is in flight after the close");
    good = client_request_check(client, one, NULL) && good;
    if (one->request.own)
      client->transport->unprepare(&one->request);
    one->request.own = NULL;
  }
  return good;
}

// --- steps ---

static bool progress(struct client *client) {
  client_begin(client);
  client->transport->progress(client->worker);
  return client_in_time(client, "progress");
}

// Only the descriptor wakes it.
static bool sleep_until(struct client *client, uint32_t ms) {
  struct pollfd news = {.fd = client->transport->fd(client->worker), .events = POLLIN};
  if (client->transport->arm(client->worker) == 0)
    poll(&news, 1, (int)ms);
  return progress(client);
}

// The request ends although nothing but its descriptor wakes the client.
static bool wait_for(struct client *client, struct client_request *one) {
  uint64_t began_ns = clock_ns();
  bool ended = !one->posted, good = true;
  while (good && !ended) {
    good = sleep_until(client, SILENT_MS) && client_request_check(client, one, &ended);
    if (good && clock_ns() - began_ns > SILENT_MS * 1000000ull)
      good = client_error(client, "a request", "nothing woke the client in time");
    began_ns = clock_ns();
  }
  return good;
}

// A request in flight is not posted again.
static bool post_again(struct client *client, struct client_request *one) {
  if (!one->posted || atomic_load(&one->request.state) != TRANSPORT_IN_FLIGHT)
    return true;
  int rc = client->transport->post(&one->request);
  return rc == WEFT_ERR_BUSY || client_error(client, "post", "is not refused for a request in flight");
}

static bool reconnect(struct client *client) {
  for (uint32_t i = 0; i < CLIENT_REQUESTS; i++) {
    struct client_request *one = &client->requests[i];
    one->peer_gone = true;
    if (one->posted && !one->cancelled)
      one->cancelled_ns = clock_ns();
    one->cancelled = true;
  }
  client_begin(client);
  client->transport->disconnect(client->peer);
  bool good = client_in_time(client, "disconnect") && connect_peer(client);
  for (uint32_t i = 0; i < CLIENT_OBJECTS && good; i++)
    good = client_object_connect(client, &client->objects[i]);
  return good;
}

// An object that no request uses makes room for another one. Prepared requests for it are given up.
static bool replace(struct client *client) {
  struct client_object *object = &client->objects[client_draw(client, CLIENT_OBJECTS)];
  if (object->users > 0)
    return true;
  for (uint32_t i = 0; i < CLIENT_REQUESTS; i++) {
    struct client_request *one = &client->requests[i];
    bool uses = false;
    for (uint32_t k = 0; k < one->request.num_pieces; k++)
      uses = uses || one->objects[k] == object;
    if (uses && one->request.own) {
      client->transport->unprepare(&one->request);
      one->request.own = NULL;
    }
  }
  pthread_mutex_lock(&client->asking);
  client_object_drop(client, object);
  bool good = client_object_make(client, object);
  pthread_mutex_unlock(&client->asking);
  return good;
}

static bool step(struct client *client) {
  struct client_request *one = &client->requests[client_draw(client, CLIENT_REQUESTS)];
  uint32_t drawn = client_draw(client, 100);
  if (!client_request_check(client, one, NULL))
    return false;
  if (!one->posted && drawn < 40)
    return client_request_start(client, one);
  return drawn < 55   ? progress(client)
         : drawn < 84 ? sleep_until(client, client_draw(client, MOST_MS))
         : drawn < 88 ? (!one->posted || client_request_cancel(client, one))
         : drawn < 91 ? post_again(client, one)
         : drawn < 98 ? wait_for(client, one)
         : drawn < 99 ? reconnect(client)
                      : replace(client);
}

bool client_live(struct client *client, uint32_t life_ms) {
  snprintf(client->prefix, sizeof client->prefix, "client-%u-%u", client->index, ++client->life);
  for (uint32_t i = 0; i < CLIENT_REQUESTS; i++)
    client->requests[i] = (struct client_request){.bytes = client->bytes + (size_t)i * CLIENT_MOST};
  pthread_mutex_lock(&client->asking);
  bool good = open_worker(client);
  for (uint32_t i = 0; i < CLIENT_OBJECTS && good; i++)
    good = client_object_make(client, &client->objects[i]);
  pthread_mutex_unlock(&client->asking);
  uint64_t until_ns = clock_deadline_ms(life_ms);
  while (good && !clock_passed(until_ns))
    good = step(client);
  pthread_mutex_lock(&client->asking);
  if (client->worker)
    good = close_worker(client, good);
  pthread_mutex_unlock(&client->asking);
  client->lives++;
  return good && !client->error[0];
}

// --- a query, beside the client ---

static void answer_error(struct client *client, const char *path, const char *why) {
  snprintf(client->asked_error, sizeof client->asked_error, "query of %s: %s", path, why);
}

// An object that has been written once is there for good, with its length.
static void ask(struct client *client, const struct client_object *object, uint32_t ms) {
  const uint32_t may = CLIENT_MAY(TIMEOUT) | CLIENT_MAY(UNREACHABLE) | CLIENT_MAY(PROTOCOL);
  bool written = atomic_load(&object->written) > 0;
  uint64_t length = 0, began_ns = clock_ns();
  int rc = client->transport->query(client->worker, object->path, ms, &length);
  client->asked++;
  client->answered += rc == 0;
  if (rc == WEFT_ERR_NOT_FOUND ? written : rc != 0 && !(may >> -rc & 1))
    answer_error(client, object->path, weft_last_error());
  if (rc == 0 && length != object->size)
    answer_error(client, object->path, "another length");
  if (clock_ns() - began_ns > (ms + CLIENT_LONGEST_MS) * 1000000ull)
    answer_error(client, object->path, "took too long");
}

void client_ask(struct client *client, uint64_t *random) {
  pthread_mutex_lock(&client->asking);
  if (client->worker)
    ask(client, &client->objects[random_next(random) % CLIENT_OBJECTS], (uint32_t)(random_next(random) % 30));
  pthread_mutex_unlock(&client->asking);
}

// --- all ---

void client_init(struct client *client, uint32_t index, uint64_t seed) {
  memset(client, 0, sizeof *client);
  client->index = index;
  client->random = random_mix(seed + index);
  client->last_serial = (uint64_t)(index + 1) << 32;
  pthread_mutex_init(&client->asking, NULL);
  client->bytes = malloc((size_t)CLIENT_REQUESTS * CLIENT_MOST);
  client->wanted = malloc(CLIENT_MOST);
}

void client_free(struct client *client) {
  pthread_mutex_destroy(&client->asking);
  free(client->bytes);
  free(client->wanted);
}
