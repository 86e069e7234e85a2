// What is said on a connection, step by step.
#include "agent/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/random.h"
#include "base/wire.h"

#define MAGIC "WEFTMEET" // 8 bytes, no NUL

static int prove(const struct agent_talk *talk, const char *role, uint8_t out[HMAC_SIZE]) {
  const char *token = talk->agent->meta->meet->token;
  const struct hmac_part parts[] = {
      {MAGIC, 8}, {role, strlen(role) + 1}, {talk->nonces[0], TALK_NONCE}, {talk->nonces[1], TALK_NONCE}};
  return hmac_sha256(token, strlen(token), parts, 4, out);
}

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

void talk_say_hello(struct agent_talk *talk) {
  uint8_t *nonce = talk->nonces[talk->caller ? 0 : 1];
  random_bytes(nonce, TALK_NONCE);
  uint8_t bytes[12 + TALK_NONCE];
  struct wire_writer writer = {.bytes = bytes, .capacity = sizeof bytes};
  wire_put(&writer, MAGIC, 8);
  wire_put_number(&writer, TALK_VERSION, 2);
  wire_put_number(&writer, TALK_MINIMUM, 2);
  wire_put(&writer, nonce, TALK_NONCE);
  talk_send(talk, TALK_HELLO, bytes, writer.at);
}

static void say_proof(struct agent_talk *talk) {
  uint8_t proof[HMAC_SIZE];
  if (prove(talk, talk->caller ? "caller" : "listener", proof) != 0)
    talk_end(talk, WEFT_ERR_SYSTEM, "no proof can be made");
  else
    talk_send(talk, TALK_PROOF, proof, sizeof proof);
}

static void take_hello(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  const void *magic = wire_take(&reader, 8);
  uint64_t version = wire_take_number(&reader, 2), minimum = wire_take_number(&reader, 2);
  const void *nonce = wire_take(&reader, TALK_NONCE);
  if (!nonce || memcmp(magic, MAGIC, 8) != 0) {
    talk_end(talk, WEFT_ERR_PROTOCOL, "it is no agent: its first message is another");
    return;
  }
  if (minimum > TALK_VERSION || version < TALK_MINIMUM) {
    refuse(talk, WEFT_ERR_VERSION, "the two agents are of versions that do not talk to each other");
    return;
  }
  memcpy(talk->nonces[talk->caller ? 1 : 0], nonce, TALK_NONCE);
  talk->state = TALK_WANTS_PROOF;
  if (talk->caller)
    say_proof(talk);
  else
    talk_say_hello(talk);
}

static void take_proof(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  uint8_t proof[HMAC_SIZE];
  if (prove(talk, talk->caller ? "listener" : "caller", proof) != 0 ||
      prove(talk, "key of what the caller says", talk->keys[0]) != 0 ||
      prove(talk, "key of what the listener says", talk->keys[1]) != 0) {
    talk_end(talk, WEFT_ERR_SYSTEM, "no proof can be made");
    return;
  }
  if (size != HMAC_SIZE || !hmac_equal(bytes, proof)) {
    refuse(talk, WEFT_ERR_AUTH, "the two agents do not share one token");
    return;
  }
  if (!talk->caller) {
    say_proof(talk);
    if (talk->state == TALK_ENDED)
      return;
    talk->agent->meta->meet->num_half_open--;
  }
  talk->state = TALK_WANTS_METADATA;
  talk->sealed = true;
  if (talk->caller && talk_send_metadata(talk, TALK_METADATA) != 0)
    talk_end(talk, WEFT_ERR_NOMEM, "this agent's metadata cannot be written");
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
  if (!talk->sealed && code != WEFT_ERR_AUTH && code != WEFT_ERR_VERSION)
    known = false; // who has proved nothing says no more
  talk_end(talk, known ? (int)code : WEFT_ERR_PROTOCOL, why);
}

// Loads what came. False: the connection has ended over it.
static bool adopt(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  struct agent_description *description;
  weft_peer_t peer = 0;
  int err = agent_blob_read(bytes, size, &description);
  if (!err) {
    err = agent_adopt(talk->agent, description, &peer);
    free(description);
  }
  if (!err && talk->peer != 0 && talk->peer != peer)
    err = fail(WEFT_ERR_PROTOCOL, "it calls itself by another name than before");
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
}

static void take_metadata(struct agent_talk *talk, const uint8_t *bytes, size_t size) {
  if (!adopt(talk, bytes, size))
    return;
  if (talk->caller) {
    talk_send(talk, TALK_ADOPTED, NULL, 0);
    if (talk->state != TALK_ENDED)
      open_it(talk);
    return;
  }
  talk->state = TALK_WANTS_ADOPTED;
  if (talk_send_metadata(talk, TALK_METADATA) != 0)
    talk_end(talk, WEFT_ERR_NOMEM, "this agent's metadata cannot be written");
}

void talk_take(struct agent_talk *talk, enum talk_kind kind, const uint8_t *bytes, size_t size) {
  enum talk_state state = talk->state;
  if (kind == TALK_REFUSED)
    take_refusal(talk, bytes, size);
  else if (kind == TALK_HELLO && state == TALK_WANTS_HELLO)
    take_hello(talk, bytes, size);
  else if (kind == TALK_PROOF && state == TALK_WANTS_PROOF)
    take_proof(talk, bytes, size);
  else if (kind == TALK_METADATA && state == TALK_WANTS_METADATA)
    take_metadata(talk, bytes, size);
  else if (kind == TALK_ADOPTED && state == TALK_WANTS_ADOPTED)
    open_it(talk);
  else if (kind == TALK_UPDATE && state >= TALK_WANTS_ADOPTED)
    adopt(talk, bytes, size);
  else if (kind == TALK_GOODBYE && state >= TALK_WANTS_ADOPTED)
    talk_end(talk, 0, "it closed");
  else
    talk_end(talk, WEFT_ERR_PROTOCOL, "it said something out of turn");
}
