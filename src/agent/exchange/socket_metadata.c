// Sends this agent's metadata on a connection, and then an update whenever its regions change.
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/exchange/socket_connection.h"
#include "agent/metadata/describe.h"
#include "base/fail.h"
#include "base/wire/wire.h"

// --- METADATA ---

// What precedes the metadata in METADATA.
static int write_before(const struct agent_connection *connection, struct wire_writer *writer) {
  uint8_t proof[HMAC_SIZE];
  wire_put_number(writer, CONNECTION_VERSION, 2);
  wire_put_number(writer, CONNECTION_MINIMUM, 2);
  if (connection->caller)
    return 0;
  struct proof_parties parties = connection_parties(connection);
  int err = proof_make(&parties, false, proof);
  if (!err)
    wire_put(writer, proof, sizeof proof);
  return err;
}

// The content of a message: the bytes of `head`, and then the metadata. The caller frees it.
static int write_metadata(const struct agent_description *description, const uint8_t *seal,
                          const struct wire_writer *head, uint8_t **content, size_t *size) {
  size_t before = head->at, blob_size = 0;
  agent_blob_write(description, seal, NULL, &blob_size);
  if (before + blob_size + 1 > CONNECTION_MAX_MESSAGE)
    return fail(WEFT_ERR_LIMIT,
                "this agent's metadata has %zu bytes, and the socket exchange carries at most %d: register "
                "fewer regions, or larger ones",
                blob_size, CONNECTION_MAX_MESSAGE);
  uint8_t *bytes = malloc(before + blob_size);
  if (!bytes)
    return fail(WEFT_ERR_NOMEM, "no memory for metadata");
  memcpy(bytes, head->bytes, before);
  int err = agent_blob_write(description, seal, bytes + before, &blob_size);
  if (err) {
    free(bytes);
    return err;
  }
  *content = bytes;
  *size = before + blob_size;
  return 0;
}

// The same of this agent as it is now.
static int make_content(weft_agent_t *agent, const struct wire_writer *head, uint8_t **content, size_t *size) {
  struct agent_description *description;
  int err = agent_describe(agent, NULL, 0, true, &description);
  if (err)
    return err;
  err = write_metadata(description, agent_seal(agent), head, content, size);
  free(description);
  return err;
}

// Ends the connection for which this agent keeps most unsent bytes, among equal ones the oldest. It ends neither
// connections of peers nor connections that this agent has made. False: there is no other.
static bool end_slowest(struct agent_sockets *sockets) {
  struct agent_connection *connection, *slowest = NULL;
  TAILQ_FOREACH(connection, &sockets->connections, all) {
    bool may_go = !connection->caller && connection->state != CONNECTION_OPEN;
    if (may_go && connection->out.size > (slowest ? slowest->out.size : 0))
      slowest = connection;
  }
  if (slowest)
    connection_end(slowest, WEFT_ERR_LIMIT, "messages that others do not receive took up too much memory");
  return slowest != NULL;
}

int connection_send_metadata(struct agent_connection *connection) {
  uint8_t before[4 + HMAC_SIZE];
  struct wire_writer head = {.bytes = before, .capacity = sizeof before};
  int err = write_before(connection, &head);
  if (err)
    return err;
  connection->published = true; // later changes are sent as updates
  uint8_t *content = NULL;
  size_t size = 0;
  err = make_content(connection->agent, &head, &content, &size);
  if (err)
    return err;
  connection_send(connection, CONNECTION_METADATA, content, size);
  free(content);
  struct agent_sockets *sockets = connection_sockets(connection);
  while (sockets->sending > CONNECTION_MAX_SENDING && end_slowest(sockets))
    ;
  return 0;
}

// --- UPDATE ---

static int make_update(weft_agent_t *agent, struct connection_update *update) {
  uint8_t nothing[1];
  const struct wire_writer head = {.bytes = nothing};
  return update->content ? 0 : make_content(agent, &head, &update->content, &update->size);
}

void connection_send_update(struct agent_connection *connection, struct connection_update *update) {
  if (connection->state != CONNECTION_OPEN || connection->out.size > 0 || !connection->update_due ||
      connection_sockets(connection)->sending > CONNECTION_MAX_SENDING / 2)
    return;
  struct connection_update own = {0}, *from = update ? update : &own;
  connection->update_due = false;
  int err = make_update(connection->agent, from);
  if (!err)
    connection_send(connection, CONNECTION_UPDATE, from->content, from->size);
  else if (err == WEFT_ERR_LIMIT)
    connection_end(connection, err, weft_last_error());
  else
    connection->update_due = true;
  free(own.content);
}
