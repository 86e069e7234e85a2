// The messages of a connection, step by step.
#include "agent/agent.h"
#include "agent/exchange/socket_connection.h"
#include "agent/metadata/describe.h"
#include "agent/peer/load.h"
#include "agent/peer/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/wire/wire.h"

enum { MAX_OF_PEER = 8 }; // connections with one peer: two that call each other have two, and some more may be ending

static void refuse(struct agent_connection *connection, int err, const char *said) {
  char why[AGENT_MAX_DETAIL]; // the text may be this thread's last error
  snprintf(why, sizeof why, "%s", said);
  uint8_t bytes[4 + AGENT_MAX_DETAIL];
  struct wire_writer writer = {.bytes = bytes, .capacity = sizeof bytes};
  wire_put_number(&writer, (uint32_t)-err, 4);
  wire_put(&writer, why, strlen(why));
  connection_send(connection, CONNECTION_REFUSED, bytes, writer.at);
  connection_end(connection, err, why);
}

void connection_begin(struct agent_connection *connection) {
  int err = connection->caller ? connection_send_metadata(connection) : 0;
  if (err)
    refuse(connection, err, weft_last_error());
}

// The other side's text is shown to people: no control characters.
static void take_refusal(struct agent_connection *connection, const uint8_t *bytes, size_t size) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  int64_t code = -(int64_t)wire_take_number(&reader, 4);
  char why[AGENT_MAX_DETAIL];
  size_t left = wire_left(&reader);
  size_t shown = left < sizeof why - 1 ? left : sizeof why - 1;
  const void *text = wire_take(&reader, shown);
  memcpy(why, text ? text : "", text ? shown : 0);
  why[text ? shown : 0] = '\0';
  for (char *at = why; *at; at++)
    if ((unsigned char)*at < 0x20 || *at == 0x7F)
      *at = '?';
  bool known = code <= WEFT_ERR_INVALID && code >= WEFT_ERR_COMPACTED;
  connection_end(connection, known ? (int)code : WEFT_ERR_PROTOCOL, why);
}

static uint32_t count_connections(weft_agent_t *agent, weft_peer_t peer) {
  struct agent_life *life = peer == WEFT_PEER_SELF ? NULL : liveness_of(agent, peer);
  struct agent_connection *connection;
  uint32_t count = 0;
  if (life)
    LIST_FOREACH(connection, &life->connections, of_life)
  count++;
  return count;
}

// Loads metadata of the other side, which has proved that the metadata is its own. False: this has ended the
// connection.
static bool adopt(struct agent_connection *connection, const uint8_t *bytes, size_t size) {
  struct agent_description *description;
  weft_peer_t peer = 0;
  int err = agent_blob_read(bytes, size, agent_seal(connection->agent), &description);
  if (!err) {
    err = agent_adopt(connection->agent, description, connection->peer, &peer);
    free(description);
  }
  if (!err && connection->peer == 0 && count_connections(connection->agent, peer) >= MAX_OF_PEER)
    err = fail(WEFT_ERR_LIMIT, "the two have %d connections already", MAX_OF_PEER);
  if (!err && connection->peer == 0)
    connection_set_peer(connection, peer);
  if (connection->peer != 0 && !agent_peer_lives(connection->agent, connection->peer)) // it has ended meanwhile
    connection_say_goodbye(connection, WEFT_ERR_PEER_LOST, CONNECTION_PEER_ENDED);
  else if (err)
    refuse(connection, err, weft_last_error());
  return connection->state != CONNECTION_ENDED;
}

static void open_it(struct agent_connection *connection) {
  connection->state = CONNECTION_OPEN;
  wheel_cancel(&connection->agent->services->wheel, &connection->timer.timer);
  connection_wake_caller(connection);
  connection_send_update(connection, NULL);
}

// Loads the metadata that was kept, which is now proved. False: this has ended the connection.
static bool adopt_shown(struct agent_connection *connection) {
  if (!adopt(connection, (const uint8_t *)connection->shown.data, connection->shown.size))
    return false;
  connection_drop_shown(connection);
  return true;
}

// Keeps metadata until it is proved, and takes the key from it.
static int keep_shown(struct agent_connection *connection, const uint8_t *bytes, size_t size) {
  struct agent_description *description;
  int err = agent_blob_read(bytes, size, agent_seal(connection->agent), &description);
  if (err)
    return err;
  memcpy(connection->other_key, description->key, sizeof connection->other_key);
  free(description);
  text_add_bytes(&connection->shown, bytes, size);
  connection->agent->services->sockets->held += connection->shown.size;
  return connection->shown.failed ? fail(WEFT_ERR_NOMEM, "no memory for its metadata") : 0;
}

// The caller's answer to the metadata of a listener.
static int send_proof(struct agent_connection *connection) {
  uint8_t proof[HMAC_SIZE];
  struct proof_parties parties = connection_parties(connection);
  int err = proof_make(&parties, true, proof);
  if (!err)
    connection_send(connection, CONNECTION_PROOF, proof, sizeof proof);
  return err;
}

static int check_proof(const struct agent_connection *connection, const uint8_t *proof) {
  struct proof_parties parties = connection_parties(connection);
  return proof ? proof_check(&parties, proof) : fail(WEFT_ERR_PROTOCOL, "it has sent a proof that is too short");
}

static void take_metadata(struct agent_connection *connection, const uint8_t *bytes, size_t size) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  uint64_t version = wire_take_number(&reader, 2), minimum = wire_take_number(&reader, 2);
  if (version < CONNECTION_MINIMUM || minimum > CONNECTION_VERSION) {
    refuse(connection, WEFT_ERR_VERSION, "the two agents have incompatible versions");
    return;
  }
  const uint8_t *proof = connection->caller ? wire_take(&reader, HMAC_SIZE) : NULL;
  size_t left = wire_left(&reader);
  int err = keep_shown(connection, wire_take(&reader, left), left);
  if (!err && connection->caller)
    err = check_proof(connection, proof);
  if (!err) {
    connection->state = connection->caller ? CONNECTION_WANTS_ADOPTED : CONNECTION_WANTS_PROOF;
    err = connection->caller ? send_proof(connection) : connection_send_metadata(connection);
  }
  if (err)
    refuse(connection, err, weft_last_error());
}

// The caller has proved its identity; the listener loads its metadata, and then the caller does the same.
static void take_proof(struct agent_connection *connection, const uint8_t *bytes, size_t size) {
  int err = check_proof(connection, size == HMAC_SIZE ? bytes : NULL);
  if (err) {
    refuse(connection, err, weft_last_error());
    return;
  }
  if (!adopt_shown(connection))
    return;
  connection_send(connection, CONNECTION_ADOPTED, NULL, 0);
  if (connection->state != CONNECTION_ENDED)
    open_it(connection);
}

static void take_adopted(struct agent_connection *connection) {
  if (adopt_shown(connection))
    open_it(connection);
}

void connection_take(struct agent_connection *connection, enum connection_kind kind, const uint8_t *bytes,
                     size_t size) {
  enum connection_state state = connection->state;
  if (kind == CONNECTION_REFUSED)
    take_refusal(connection, bytes, size);
  else if (kind == CONNECTION_METADATA && state == CONNECTION_WANTS_METADATA)
    take_metadata(connection, bytes, size);
  else if (kind == CONNECTION_ADOPTED && state == CONNECTION_WANTS_ADOPTED)
    take_adopted(connection);
  else if (kind == CONNECTION_PROOF && state == CONNECTION_WANTS_PROOF)
    take_proof(connection, bytes, size);
  else if (kind == CONNECTION_UPDATE && state == CONNECTION_OPEN)
    adopt(connection, bytes, size);
  else if (kind == CONNECTION_GOODBYE && state >= CONNECTION_WANTS_PROOF)
    connection_end(connection, 0, "it closed");
  else
    connection_end(connection, WEFT_ERR_PROTOCOL, "it sent a message out of order");
}
