// What is said on a connection, step by step.
#include "agent/exchange/socket_connection.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/wire/wire.h"

enum { MAX_OF_PEER = 8 }; // connections with one peer: two that call each other have two, and some more may be ending

static void refuse(struct agent_talk *talk, int err, const char *said) {
  char why[AGENT_MAX_DETAIL]; // what was said may be this thread's last error
  snprintf(why, sizeof why, "%s", said);
  uint8_t bytes[4 + AGENT_MAX_DETAIL];
  struct wire_writer writer = {.bytes = bytes, .capacity = sizeof bytes};
  wire_put_number(&writer, (uint32_t)-err, 4);
  wire_put(&writer, why, strlen(why));
  talk_send(talk, TALK_REFUSED, bytes, writer.at);
  talk_end(talk, err, why);
}

void talk_begin(struct agent_talk *talk) {
  int err = talk->caller ? talk_send_metadata(talk, TALK_METADATA) : 0;
  if (err)
    refuse(talk, err, weft_last_error());
}

// What the other says is shown to people: no control characters.
static void take_refusal(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
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
  talk_end(talk, known ? (int)code : WEFT_ERR_PROTOCOL, why);
}

static uint32_t count_talks(weft_agent_t *agent, weft_peer_t peer) {
  struct agent_life *life = peer == WEFT_PEER_SELF ? NULL : liveness_of(agent, peer);
  struct agent_talk *talk;
  uint32_t count = 0;
  if (life)
    LIST_FOREACH(talk, &life->talks, of_life)
  count++;
  return count;
}

// Loads metadata of the other, who has proved that it is its own. False: the connection has ended over it.
static bool adopt(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  struct agent_description *description;
  weft_peer_t peer = 0;
  int err = agent_blob_read(bytes, size, agent_seal(talk->agent), &description);
  if (!err) {
    err = agent_adopt(talk->agent, description, talk->peer, &peer);
    free(description);
  }
  if (!err && talk->peer == 0 && count_talks(talk->agent, peer) >= MAX_OF_PEER)
    err = fail(WEFT_ERR_LIMIT, "the two have %d connections already", MAX_OF_PEER);
  if (err) {
    refuse(talk, err, weft_last_error());
    return false;
  }
  if (talk->peer == 0)
    talk_set_peer(talk, peer);
  return true;
}

static void open_it(struct agent_talk *talk) {
  talk->state = TALK_OPEN;
  wheel_cancel(&talk->agent->meta->wheel, &talk->timer.timer);
  talk_tell_caller(talk);
  talk_send_update(talk);
}

// Loads what was shown, which has been proved. False: the connection has ended over it.
static bool adopt_shown(struct agent_talk *talk) {
  if (!adopt(talk, (const uint8_t *)talk->shown.data, talk->shown.size))
    return false;
  talk_drop_shown(talk);
  return true;
}

// Keeps metadata until it is proved, and takes the key from it.
static int keep_shown(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  struct agent_description *description;
  int err = agent_blob_read(bytes, size, agent_seal(talk->agent), &description);
  if (err)
    return err;
  memcpy(talk->other_key, description->key, sizeof talk->other_key);
  free(description);
  text_add_bytes(&talk->shown, bytes, size);
  talk->agent->meta->meet->held += talk->shown.size;
  return talk->shown.failed ? fail(WEFT_ERR_NOMEM, "no memory for its metadata") : 0;
}

// The caller's answer to the metadata of a listener.
static int say_proof(struct agent_talk *talk) {
  uint8_t proof[HMAC_SIZE];
  struct proof_parties parties = talk_parties(talk);
  int err = proof_make(&parties, true, proof);
  if (!err)
    talk_send(talk, TALK_PROOF, proof, sizeof proof);
  return err;
}

static int check_proof(const struct agent_talk *talk, const uint8_t *proof) {
  struct proof_parties parties = talk_parties(talk);
  return proof ? proof_check(&parties, proof) : fail(WEFT_ERR_PROTOCOL, "it has sent a proof that is too short");
}

static void take_metadata(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  uint64_t version = wire_take_number(&reader, 2), minimum = wire_take_number(&reader, 2);
  if (version < TALK_MINIMUM || minimum > TALK_VERSION) {
    refuse(talk, WEFT_ERR_VERSION, "the two agents are of versions that do not talk to each other");
    return;
  }
  const uint8_t *proof = talk->caller ? wire_take(&reader, HMAC_SIZE) : NULL;
  size_t left = wire_left(&reader);
  int err = keep_shown(talk, wire_take(&reader, left), left);
  if (!err && talk->caller)
    err = check_proof(talk, proof);
  if (!err) {
    talk->state = talk->caller ? TALK_WANTS_ADOPTED : TALK_WANTS_PROOF;
    err = talk->caller ? say_proof(talk) : talk_send_metadata(talk, TALK_METADATA);
  }
  if (err)
    refuse(talk, err, weft_last_error());
}

// The caller is who it says; the listener takes it in, and then the caller does the same.
static void take_proof(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  int err = check_proof(talk, size == HMAC_SIZE ? bytes : NULL);
  if (err) {
    refuse(talk, err, weft_last_error());
    return;
  }
  if (!adopt_shown(talk))
    return;
  talk_send(talk, TALK_ADOPTED, NULL, 0);
  if (talk->state != TALK_ENDED)
    open_it(talk);
}

static void take_adopted(struct agent_talk *talk) {
  if (adopt_shown(talk))
    open_it(talk);
}

void talk_take(struct agent_talk *talk, enum talk_kind kind, const uint8_t *bytes, size_t size) {
  enum talk_state state = talk->state;
  if (kind == TALK_REFUSED)
    take_refusal(talk, bytes, size);
  else if (kind == TALK_METADATA && state == TALK_WANTS_METADATA)
    take_metadata(talk, bytes, size);
  else if (kind == TALK_ADOPTED && state == TALK_WANTS_ADOPTED)
    take_adopted(talk);
  else if (kind == TALK_PROOF && state == TALK_WANTS_PROOF)
    take_proof(talk, bytes, size);
  else if (kind == TALK_UPDATE && state == TALK_OPEN)
    adopt(talk, bytes, size);
  else if (kind == TALK_GOODBYE && state >= TALK_WANTS_PROOF)
    talk_end(talk, 0, "it closed");
  else
    talk_end(talk, WEFT_ERR_PROTOCOL, "it said something out of turn");
}
