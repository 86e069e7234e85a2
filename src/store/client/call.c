// A call: one request, which is sent to one endpoint after the other until one answers, within one deadline.
#include "base/fail.h"
#include "base/time/clock.h"
#include "store/client/http.h"
#include "store/client/json.h"
#include "store/client/status.h"
#include <stdio.h>

size_t client_endpoint(struct client *client) {
  return atomic_load(&client->current);
}

void client_endpoint_failed(struct client *client, size_t failed) {
  atomic_compare_exchange_strong(&client->current, &failed, (failed + 1) % client->num_endpoints);
}

static int read_answer(const struct client_transfer *transfer, const char *endpoint, json_t **answer) {
  int err = client_json_parse(transfer->body.data ? transfer->body.data : "", transfer->body.size, answer);
  return err ? fail_context(err, "store %s", endpoint) : 0;
}

// One request to one endpoint with the token at hand.
static int send_request(struct client *client, const char *endpoint, const struct client_request *request,
                        const char *authorization, uint64_t deadline_ns, json_t **answer, enum client_remedy *remedy) {
  struct client_transfer transfer = {0};
  long status = 0;
  *remedy = CLIENT_FINAL;
  int err = client_http_exchange(client, &transfer, endpoint, request, authorization, deadline_ns, &status);
  if (err == WEFT_ERR_PROTOCOL || err == WEFT_ERR_NOMEM)
    *remedy = CLIENT_FINAL;
  else if (err)
    *remedy = transfer.sent ? CLIENT_MAYBE : CLIENT_ELSEWHERE;
  else if (status != 200)
    err = client_status_fail(endpoint, request->path, status, transfer.body.data ? transfer.body.data : "",
                             transfer.body.size, remedy);
  else
    err = read_answer(&transfer, endpoint, answer);
  client_transfer_end(&transfer);
  return err;
}

// Gets a token from etcd. If this fails, the request itself is not sent.
static int get_token(struct client *client, const char *endpoint, uint64_t deadline_ns, enum client_remedy *remedy) {
  struct text body = {0};
  struct client_request request = {.path = "/v3/auth/authenticate", .body = &body};
  json_t *answer = NULL;
  int err = client_auth_request(client, &body);
  if (!err)
    err = send_request(client, endpoint, &request, "", deadline_ns, &answer, remedy);
  if (!err)
    err = client_auth_answer(client, answer);
  json_decref(answer);
  text_wipe(&body);
  if (err && *remedy == CLIENT_MAYBE)
    *remedy = CLIENT_ELSEWHERE;
  return err;
}

// One endpoint's part of a call: gets a token where one is needed, once more when etcd does not know it any longer.
// That takes no more than the endpoint's share of the time: the request is not sent yet, so another endpoint may get
// it.
static int ask_endpoint(struct client *client, const char *endpoint, const struct client_request *request,
                        uint64_t deadline_ns, json_t **answer, enum client_remedy *remedy) {
  char authorization[CLIENT_MAX_TOKEN + 8];
  for (int renewals = 0;; renewals++) {
    *remedy = CLIENT_FINAL;
    int err = 0;
    if (!client_auth_header(client, endpoint, authorization)) {
      uint64_t share_ns = clock_ns() + clock_left_ns(deadline_ns) / client->num_endpoints;
      err = get_token(client, endpoint, share_ns, remedy);
      client_auth_header(client, endpoint, authorization);
    }
    if (!err)
      err = send_request(client, endpoint, request, authorization, deadline_ns, answer, remedy);
    if (*remedy != CLIENT_NEW_TOKEN || !client->user || renewals)
      return err;
    client_auth_forget(client);
  }
}

// The time limit for one endpoint. If the request may be sent to the next endpoint, each one gets its share of the
// time.
static uint64_t part_deadline(const struct client_request *request, uint64_t deadline_ns, size_t endpoints_left) {
  return request->modifies ? deadline_ns : clock_ns() + clock_left_ns(deadline_ns) / endpoints_left;
}

int client_call(struct client *client, const struct client_request *request, json_t **answer) {
  uint64_t deadline_ns = clock_deadline_ms(client->request_timeout_ms);
  char before[512] = ""; // errors of the endpoints before
  for (size_t left = client->num_endpoints; left > 0; left--) {
    size_t index = client_endpoint(client);
    enum client_remedy remedy;
    int err = ask_endpoint(client, client->endpoints[index], request, part_deadline(request, deadline_ns, left), answer,
                           &remedy);
    if (!err || remedy == CLIENT_FINAL || remedy == CLIENT_NEW_TOKEN)
      return err;
    client_endpoint_failed(client, index);
    if (remedy == CLIENT_MAYBE && request->modifies)
      return fail_context(err, "%s may or may not have been carried out", request->path);
    if (left == 1 || clock_passed(deadline_ns))
      return *before ? fail_context(err, "%s; then", before) : err;
    snprintf(before, sizeof before, "%s", weft_last_error());
  }
  return fail(WEFT_ERR_UNREACHABLE, "the store has no endpoint: want at least one");
}
