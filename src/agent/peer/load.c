// Makes a peer from metadata, or updates one: all of the metadata takes effect, or none of it.
#include "agent/peer/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/memory/region_index.h"
#include "agent/metadata/describe.h"
#include "agent/peer/links.h"
#include "agent/peer/message_send.h"
#include "agent/peer/remote_regions.h"
#include "agent/peer/table.h"
#include "base/fail.h"
#include "base/time/clock.h"
#include "base/wire/wire.h"
#include "secure/hmac.h"

// Connects by transports that the peer, or this agent, has opened since. Returns whether one more reaches the peer.
static bool connect_later(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description) {
  char why[256];
  bool reached = agent_links_connect(agent, peer, description, why, sizeof why) > 0;
  if (reached)
    agent_links_choose_messenger(agent, peer);
  agent_remote_regions_add_keys(agent, peer, description);
  return reached;
}

static int update(weft_agent_t *agent, struct agent_peer *peer, const struct agent_description *description,
                  bool *changed) {
  if (description->change < peer->change)
    return 0;
  int rc = agent_remote_regions_add(agent, peer, description, changed);
  if (rc != 0)
    return rc;
  *changed |= connect_later(agent, peer, description);
  if (description->all_regions)
    *changed |= agent_remote_regions_drop_others(agent, peer, description);
  peer->change = description->change;
  return 0;
}

static int make_mark(const uint8_t key[SECRET_KEY_SIZE], uint64_t sender, uint64_t *mark) {
  uint8_t name[8], mac[HMAC_SIZE];
  struct wire_writer writer = {.bytes = name, .capacity = sizeof name};
  wire_put_number(&writer, sender, 8);
  const struct hmac_part part = {name, sizeof name};
  int rc = hmac_sha256(key, SECRET_KEY_SIZE, &part, 1, mac);
  struct wire_reader reader = {.bytes = mac, .size = sizeof mac};
  if (rc == 0)
    *mark = wire_take_number(&reader, 8);
  return rc;
}

// The marks of messages between the two: from a key that only they can agree on. So a third agent, though it knows all
// metadata, cannot send messages in the name of either.
static int agree(const weft_agent_t *agent, const struct agent_description *description, struct agent_peer *peer) {
  uint8_t key[SECRET_KEY_SIZE];
  int rc = exchange_agree(&agent->exchange, description->key, "weft message 1", key);
  if (rc == 0)
    rc = make_mark(key, description->incarnation, &peer->mark_in);
  if (rc == 0)
    rc = make_mark(key, agent->incarnation, &peer->mark_out);
  explicit_bzero(key, sizeof key);
  return rc;
}

static int create(weft_agent_t *agent, const struct agent_description *description, struct agent_peer **made) {
  struct agent_peer *peer;
  if (agent->peers.living >= AGENT_MAX_PEERS)
    return fail(WEFT_ERR_LIMIT, "%u peers live already, the most that an agent can have", agent->peers.living);
  int rc = agent_peer_new(agent, &peer);
  if (rc != 0)
    return rc;
  memcpy(peer->host, description->host, sizeof peer->host);
  peer->incarnation = description->incarnation;
  peer->pid_namespace = description->pid_namespace;
  peer->start_ticks = description->start_ticks;
  peer->pid = description->pid;
  peer->heartbeat_ms = description->heartbeat_ms;
  peer->received_ns = clock_ns();
  agent_credit_open(agent, peer);
  bool changed;
  rc = agree(agent, description, peer);
  if (rc == 0)
    rc = agent_event_reserve(peer);
  if (rc == 0)
    rc = agent_links_connect_all(agent, peer, description);
  if (rc == 0)
    rc = update(agent, peer, description, &changed);
  if (rc != 0) {
    char why[FAIL_DETAIL_SIZE];
    snprintf(why, sizeof why, "%s", weft_last_error());
    agent_peer_tear(agent, peer);
    agent_ranges_free(&peer->regions); // empty: regions come last
    agent_peer_recycle(agent, peer);
    return fail(rc, "%s", why);
  }
  agent_links_choose_messenger(agent, peer);
  memcpy(peer->name, description->name, sizeof peer->name);
  agent_peer_enter(agent, peer);
  *made = peer;
  return 0;
}

// Whether the incarnation follows from the name and the key: then no other agent has it.
static int check_identity(const struct agent_description *description) {
  uint64_t incarnation = 0;
  int rc = agent_incarnation(description->name, description->key, &incarnation);
  if (rc == 0 && incarnation != description->incarnation)
    rc = fail(WEFT_ERR_PROTOCOL,
              "metadata of %s says that it is incarnation %016" PRIx64 "; by its name and its key it "
              "is %016" PRIx64,
              description->name, description->incarnation, incarnation);
  return rc;
}

static int adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only, weft_peer_t *id) {
  struct agent_peer *peer = agent_peer_named(agent, description->name);
  bool known = peer != NULL, own = strcmp(description->name, agent->name) == 0, changed = true;
  if (only != 0 && only != (own ? WEFT_PEER_SELF : known ? peer->id : 0))
    return fail(WEFT_ERR_PROTOCOL, "it describes %s, which is another agent", description->name);
  if (own) {
    if (description->incarnation != agent->incarnation)
      return fail(WEFT_ERR_EXISTS, "another agent has the name of this one, %s", agent->name);
    *id = WEFT_PEER_SELF;
    return 0;
  }
  if (known && peer->incarnation != description->incarnation)
    return fail(WEFT_ERR_EXISTS,
                "%s is known as incarnation %016" PRIx64 ", which lives as far as known; this is %016" PRIx64,
                description->name, peer->incarnation, description->incarnation);
  if (!known && !description->complete)
    return fail(WEFT_ERR_NOT_FOUND, "this is an update of the metadata of %s, but no metadata of it was loaded",
                description->name);
  changed = false;
  int rc = known ? update(agent, peer, description, &changed) : create(agent, description, &peer);
  if (rc != 0)
    return rc;
  if (!known || changed) {
    enum weft_agent_event_kind kind = known ? WEFT_AGENT_EVENT_PEER_UPDATED : WEFT_AGENT_EVENT_PEER_LOADED;
    agent->hooks->peer_changed(agent, peer, kind);
    agent_emit_event(agent, peer, kind, "");
  }
  *id = peer->id;
  return 0;
}

int agent_adopt(weft_agent_t *agent, const struct agent_description *description, weft_peer_t only, weft_peer_t *peer) {
  weft_peer_t id = 0;
  int rc = check_identity(description);
  if (rc != 0)
    return rc;
  pthread_mutex_lock(&agent->lock);
  rc = adopt(agent, description, only, &id);
  pthread_mutex_unlock(&agent->lock);
  if (rc == 0 && peer)
    *peer = id;
  if (rc == 0)
    agent_wake(agent);
  return rc;
}

int weft_agent_load(weft_agent_t *agent, const void *blob, size_t size, weft_peer_t *peer) {
  int unusable = agent_handle_check(agent);
  if (unusable != 0)
    return unusable;
  if (!blob || !peer)
    return fail(WEFT_ERR_INVALID, "%s is NULL", !blob ? "blob" : "peer");
  struct agent_description *description;
  int err = agent_blob_read(blob, size, agent_seal(agent), &description);
  if (err)
    return err;
  err = agent_adopt(agent, description, 0, peer);
  free(description);
  return err;
}
