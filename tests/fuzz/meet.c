// What comes on a connection of an agent that meets others by socket, from a stranger or from one who has the token and
// does not keep to the protocol. Who has not shown the token learns nothing and is no peer; no message harms.
//
// An input: a byte of choices; for a stranger then the bytes that it sends; for who has the token messages, each a byte
// of kind, two of size, and the content, which are sealed. A kind with its highest bit set brings the metadata of an
// agent in the content's place.
#include "agent/talk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

#include "agent/progress.h"
#include "base/wire.h"
#include "fuzz.h"

enum {
  CHOICE_CALLER = 1, // the agent called
  CHOICE_PROVEN = 2, // the other has the token
  CHOICE_NO_SEAL = 4,
  CHOICE_PIECES = 8, // it sends a few bytes at a time
  WITH_BLOB = 0x80,
  PIECE = 7,
  ROUNDS = 64, // of housekeeping until a connection has ended
};

static const char token[] = "correct horse battery staple", name[] = "the-name-that-nobody-learns";

static weft_agent_t *agent, *other;
static uint8_t *blob;
static size_t blob_size;
static uint32_t loaded;

static void count_loaded(void *arg, const struct weft_agent_event *event) {
  (void)arg;
  loaded += event->kind == WEFT_AGENT_EVENT_PEER_LOADED;
}

static weft_agent_t *open_agent(const char *called) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *opened;
  options.name = called;
  options.token = token;
  options.transports = "shm";
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  options.heartbeat_ms = 60000;
  options.peer_timeout_ms = 600000;
  options.on_event = count_loaded;
  FUZZ_CHECK(weft_agent_open(&opened, &options) == 0);
  return opened;
}

static void open_agents(void) {
  agent = open_agent(name);
  other = open_agent("other");
  blob_size = 0;
  FUZZ_CHECK(weft_agent_metadata(other, NULL, 0, true, NULL, &blob_size) == WEFT_ERR_LIMIT);
  blob = malloc(blob_size);
  FUZZ_CHECK(blob && weft_agent_metadata(other, NULL, 0, true, blob, &blob_size) == 0);
}

// The connection, from the other's side.
struct wire {
  struct agent_talk *talk;
  int fd;
  bool caller; // the other is; that is, the agent listens
  uint64_t number;
  char *heard;
  size_t num_heard;
};

static void drive(struct wire *wire) {
  char bytes[4096];
  agent_wake(agent);
  weft_agent_progress(agent, NULL);
  for (ssize_t got; (got = recv(wire->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) {
    wire->heard = realloc(wire->heard, wire->num_heard + (size_t)got);
    FUZZ_CHECK(wire->heard);
    memcpy(wire->heard + wire->num_heard, bytes, (size_t)got);
    wire->num_heard += (size_t)got;
  }
}

static void say(struct wire *wire, const void *bytes, size_t size, size_t piece) {
  for (size_t at = 0; at < size; at += piece) {
    send(wire->fd, (const char *)bytes + at, size - at < piece ? size - at : piece, MSG_NOSIGNAL | MSG_DONTWAIT);
    drive(wire);
  }
}

static size_t put_message(uint8_t *out, uint8_t kind, const void *content, size_t size, size_t seal) {
  struct wire_writer writer = {.bytes = out, .capacity = TALK_HEAD + size};
  wire_put_number(&writer, size + 1 + seal, 4);
  wire_put_number(&writer, kind, 1);
  wire_put(&writer, content, size);
  return writer.at;
}

static void prove(const struct agent_talk *talk, const char *role, uint8_t out[HMAC_SIZE]) {
  const struct hmac_part parts[] = {
      {"WEFTMEET", 8}, {role, strlen(role) + 1}, {talk->nonces[0], TALK_NONCE}, {talk->nonces[1], TALK_NONCE}};
  FUZZ_CHECK(hmac_sha256(token, strlen(token), parts, 4, out) == 0);
}

// Goes through the proofs as talk.h says; the agent's random values are read where they stand.
static void shake_hands(struct wire *wire) {
  uint8_t content[12 + TALK_NONCE] = "WEFTMEET\1\0\1", proof[HMAC_SIZE], out[TALK_MAX_GREETING];
  memset(content + 12, 7, TALK_NONCE);
  say(wire, out, put_message(out, TALK_HELLO, content, sizeof content, 0), sizeof out);
  FUZZ_CHECK(wire->talk->state == TALK_WANTS_PROOF);
  prove(wire->talk, wire->caller ? "caller" : "listener", proof);
  say(wire, out, put_message(out, TALK_PROOF, proof, sizeof proof, 0), sizeof out);
  FUZZ_CHECK(wire->talk->state == TALK_WANTS_METADATA && wire->talk->sealed);
}

static void say_sealed(struct wire *wire, uint8_t kind, const void *content, size_t size, uint8_t choices) {
  uint8_t *out = malloc(TALK_HEAD + size + HMAC_SIZE), number[8];
  FUZZ_CHECK(out);
  size_t length = put_message(out, kind, content, size, HMAC_SIZE);
  struct wire_writer counter = {.bytes = number, .capacity = sizeof number};
  wire_put_number(&counter, wire->number++, 8);
  const struct hmac_part parts[] = {{number, sizeof number}, {out, length}};
  FUZZ_CHECK(hmac_sha256(wire->talk->keys[wire->caller ? 0 : 1], HMAC_SIZE, parts, 2, out + length) == 0);
  out[length] ^= choices & CHOICE_NO_SEAL ? 1 : 0;
  say(wire, out, length + HMAC_SIZE, choices & CHOICE_PIECES ? PIECE : SIZE_MAX);
  free(out);
}

static void say_messages(struct wire *wire, struct fuzz_input *input, uint8_t choices) {
  shake_hands(wire);
  while (input->size > 0 && wire->talk->state != TALK_ENDED) {
    uint8_t kind;
    uint16_t size;
    fuzz_bytes(input, &kind, sizeof kind);
    fuzz_bytes(input, &size, sizeof size);
    uint8_t *content = malloc(size);
    fuzz_bytes(input, content, size);
    if (kind & WITH_BLOB)
      say_sealed(wire, kind & ~WITH_BLOB, blob, blob_size, choices);
    else
      say_sealed(wire, kind, content, size, choices);
    free(content);
  }
}

static void begin(struct wire *wire, bool caller) {
  int pair[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  pthread_mutex_lock(&agent->tending);
  *wire = (struct wire){.talk = talk_start(agent->meta, pair[0], caller), .fd = pair[1], .caller = !caller};
  FUZZ_CHECK(wire->talk);
  wire->talk->waited = true; // it stays to be looked at
  pthread_mutex_unlock(&agent->tending);
  drive(wire);
}

static void end(struct wire *wire) {
  shutdown(wire->fd, SHUT_WR);
  for (int i = 0; i < ROUNDS && wire->talk->state != TALK_ENDED; i++)
    drive(wire);
  FUZZ_CHECK(wire->talk->state == TALK_ENDED);
  wire->talk->waited = false;
  close(wire->fd);
  free(wire->heard);
  agent_wake(agent);
  weft_agent_progress(agent, NULL);
  weft_agent_progress(other, NULL); // it lets go of who has gone
  struct agent_meet *meet = agent->meta->meet;
  FUZZ_CHECK(meet->num_half_open == 0 && TAILQ_EMPTY(&meet->talks) && TAILQ_EMPTY(&meet->ended));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!agent)
    open_agents();
  struct fuzz_input input = {(const char *)data, size};
  struct wire wire;
  uint8_t choices;
  fuzz_bytes(&input, &choices, sizeof choices);
  loaded = 0;
  begin(&wire, choices & CHOICE_CALLER);
  if (choices & CHOICE_PROVEN) {
    say_messages(&wire, &input, choices);
  } else {
    say(&wire, input.data, input.size, choices & CHOICE_PIECES ? PIECE : SIZE_MAX);
    FUZZ_CHECK(loaded == 0 && !wire.talk->sealed && wire.talk->peer == 0);
    FUZZ_CHECK(wire.num_heard == 0 || !memmem(wire.heard, wire.num_heard, name, strlen(name)));
    FUZZ_CHECK(wire.num_heard <= 2 * TALK_MAX_GREETING);
  }
  FUZZ_CHECK(loaded == 0 || !(choices & CHOICE_NO_SEAL));
  end(&wire);
  return 0;
}
