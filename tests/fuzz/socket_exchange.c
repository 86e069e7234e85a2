// Data on a connection of an agent that meets others by socket, from a stranger or from a peer that has the token and
// breaks the protocol. A caller that has not proved the token learns nothing and is no peer; no message does harm.
//
// An input: a byte of choices. For a stranger follow the bytes that it sends, or places (two bytes) and changes (one)
// of a valid first message. For a peer with the token follow messages, each a byte of kind, two of size, and the
// content. A kind with its highest bit set inserts an agent's metadata in place of the content, and makes a proof
// right.
#include "agent/exchange/socket_connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

#include "agent/progress/progress.h"
#include "base/wire/wire.h"
#include "fuzz/support/fuzz.h"

enum {
  CHOICE_CALLER = 1,   // the agent called
  CHOICE_PROVEN = 2,   // the other has the token
  CHOICE_CLEAR = 4,    // and yet it sends its messages without TLS
  CHOICE_PIECES = 8,   // it sends a few bytes at a time
  CHOICE_CHANGED = 16, // a stranger's first message is a lawful one, changed
  WITH_BLOB = 0x80,
  PIECE = 7,
  MOST_RECEIVED = 1024, // bytes that a stranger receives: the first messages of TLS
  ROUNDS = 64,          // of housekeeping until a connection has ended
};

static const char token[] = "correct horse battery staple", name[] = "the-name-that-nobody-learns";

static weft_agent_t *agent, *other;
static uint8_t *blob;
static size_t blob_size;

// Peers that came since it was asked before.
static uint32_t loaded(void) {
  struct weft_agent_event event = WEFT_AGENT_EVENT_INIT;
  uint32_t count = 0;
  while (weft_agent_next_event(agent, &event) == 1)
    count += event.kind == WEFT_AGENT_EVENT_PEER_LOADED;
  return count;
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
  FUZZ_CHECK(weft_agent_open(&opened, &options) == 0);
  return opened;
}

static void open_agents(void) {
  agent = open_agent(name);
  other = open_agent("other");
  blob_size = 0;
  FUZZ_CHECK(weft_agent_metadata(other, NULL, NULL, 0, &blob_size) == 0);
  blob = malloc(blob_size);
  FUZZ_CHECK(blob && weft_agent_metadata(other, NULL, blob, blob_size, &blob_size) == 0);
}

// The connection, from the other's side.
struct wire {
  struct agent_connection *talk;
  int fd;
  bool caller;     // the other is; that is, the agent listens
  struct tls *tls; // of a caller with the token
  char *received;  // by a caller without the token
  size_t num_received;
};

static void drive(struct wire *wire) {
  char bytes[4096];
  agent_wake(agent);
  weft_agent_progress(agent, NULL);
  for (ssize_t got; !wire->tls && (got = recv(wire->fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0;) {
    wire->received = realloc(wire->received, wire->num_received + (size_t)got);
    FUZZ_CHECK(wire->received);
    memcpy(wire->received + wire->num_received, bytes, (size_t)got);
    wire->num_received += (size_t)got;
  }
}

static void send_clear(struct wire *wire, const void *bytes, size_t size, size_t piece) {
  for (size_t at = 0; at < size; at += piece) {
    send(wire->fd, (const char *)bytes + at, size - at < piece ? size - at : piece, MSG_NOSIGNAL | MSG_DONTWAIT);
    drive(wire);
  }
}

static struct tls *open_tls(int fd, bool caller) {
  struct tls *tls;
  FUZZ_CHECK(tls_open(&tls, fd, caller, CONNECTION_PROTOCOL, agent->services->sockets->key) == 0);
  return tls;
}

static void shake_hands(struct wire *wire) {
  wire->tls = open_tls(wire->fd, wire->caller);
  int rc = TLS_WANTS_READ;
  for (int i = 0; i < ROUNDS && rc > 0; i++) {
    rc = tls_handshake(wire->tls);
    drive(wire);
  }
  FUZZ_CHECK(rc == 0 && wire->talk->state == CONNECTION_WANTS_METADATA);
}

// Reads what the agent sent, so that it can go on.
static void listen_to(struct wire *wire) {
  uint8_t bytes[4096];
  size_t got;
  while (tls_read(wire->tls, bytes, sizeof bytes, &got) == 0)
    continue;
}

static void send_in_tls(struct wire *wire, const uint8_t *bytes, size_t size, size_t piece) {
  for (size_t at = 0, sent; at < size && wire->talk->state != CONNECTION_ENDED;) {
    int rc = tls_write(wire->tls, bytes + at, size - at < piece ? size - at : piece, &sent);
    if (rc < 0)
      return;
    at += rc == 0 ? sent : 0;
    drive(wire);
    listen_to(wire);
  }
}

// The other's proof that the metadata is its own.
static void make_proof(const struct wire *wire, uint8_t proof[HMAC_SIZE]) {
  const struct proof_parties parties = {
      .own = &other->exchange, .other = agent->exchange.public_key, .own_calls = wire->caller, .tls = wire->tls};
  FUZZ_CHECK(proof_make(&parties, wire->caller, proof) == 0);
}

// With the metadata as content it is what its owner would send: versions before it, and a proof where one belongs.
static void send_message(struct wire *wire, uint8_t kind, const void *content, size_t size, uint8_t choices) {
  bool versions = kind == CONNECTION_METADATA && content == blob;
  bool proves = content == blob && (kind == CONNECTION_PROOF || (kind == CONNECTION_METADATA && !wire->caller));
  uint8_t proof[HMAC_SIZE];
  if (proves)
    make_proof(wire, proof);
  if (proves && kind == CONNECTION_PROOF)
    size = 0;
  size_t before = (versions ? 4 : 0) + (proves ? sizeof proof : 0);
  uint8_t *out = malloc(CONNECTION_HEAD + before + size);
  FUZZ_CHECK(out);
  struct wire_writer writer = {.bytes = out, .capacity = CONNECTION_HEAD + before + size};
  wire_put_number(&writer, 1 + before + size, 4);
  wire_put_number(&writer, kind, 1);
  if (versions)
    wire_put_number(&writer, CONNECTION_VERSION | CONNECTION_MINIMUM << 16, 4);
  if (proves)
    wire_put(&writer, proof, sizeof proof);
  if (size > 0)
    wire_put(&writer, content, size);
  size_t piece = choices & CHOICE_PIECES ? PIECE : SIZE_MAX;
  if (choices & CHOICE_CLEAR)
    send_clear(wire, out, writer.at, piece);
  else
    send_in_tls(wire, out, writer.at, piece);
  free(out);
}

// A lawful caller's first message, with changes.
static void send_changed(struct wire *wire, struct fuzz_input *input, uint8_t choices) {
  uint8_t first[4096];
  int pair[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  struct tls *tls = open_tls(pair[0], true);
  tls_handshake(tls);
  ssize_t size = recv(pair[1], first, sizeof first, 0);
  FUZZ_CHECK(size > 0);
  tls_close(tls);
  close(pair[0]);
  close(pair[1]);
  while (input->size > 0) {
    uint8_t place[2], change;
    fuzz_bytes(input, place, sizeof place);
    fuzz_bytes(input, &change, sizeof change);
    first[(place[0] << 8 | place[1]) % (size_t)size] ^= change;
  }
  send_clear(wire, first, (size_t)size, choices & CHOICE_PIECES ? PIECE : SIZE_MAX);
}

static void send_messages(struct wire *wire, struct fuzz_input *input, uint8_t choices) {
  shake_hands(wire);
  while (input->size > 0 && wire->talk->state != CONNECTION_ENDED) {
    uint8_t kind;
    uint16_t size;
    fuzz_bytes(input, &kind, sizeof kind);
    fuzz_bytes(input, &size, sizeof size);
    uint8_t *content = malloc(size);
    fuzz_bytes(input, content, size);
    if (kind & WITH_BLOB)
      send_message(wire, kind & ~WITH_BLOB, blob, blob_size, choices);
    else
      send_message(wire, kind, content, size, choices);
    free(content);
  }
}

static void begin(struct wire *wire, bool caller) {
  int pair[2];
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
  pthread_mutex_lock(&agent->housekeeping);
  *wire = (struct wire){.talk = connection_start(agent->services, pair[0], caller), .fd = pair[1], .caller = !caller};
  FUZZ_CHECK(wire->talk);
  wire->talk->waited = true; // it stays to be looked at
  pthread_mutex_unlock(&agent->housekeeping);
}

static void end(struct wire *wire) {
  tls_close(wire->tls);
  shutdown(wire->fd, SHUT_WR);
  for (int i = 0; i < ROUNDS && wire->talk->state != CONNECTION_ENDED; i++)
    drive(wire);
  FUZZ_CHECK(wire->talk->state == CONNECTION_ENDED);
  wire->talk->waited = false;
  close(wire->fd);
  free(wire->received);
  agent_wake(agent);
  weft_agent_progress(agent, NULL);
  weft_agent_progress(other, NULL); // it releases the peer that has gone
  struct agent_sockets *meet = agent->services->sockets;
  FUZZ_CHECK(meet->num_half_open == 0 && meet->num_taken == 0 && meet->held == 0 && TAILQ_EMPTY(&meet->connections) &&
             TAILQ_EMPTY(&meet->ended));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!agent)
    open_agents();
  struct fuzz_input input = {(const char *)data, size};
  struct wire wire;
  uint8_t choices;
  fuzz_bytes(&input, &choices, sizeof choices);
  loaded();
  begin(&wire, choices & CHOICE_CALLER);
  if (choices & CHOICE_PROVEN) {
    send_messages(&wire, &input, choices);
  } else {
    drive(&wire);
    if (choices & CHOICE_CHANGED)
      send_changed(&wire, &input, choices);
    else
      send_clear(&wire, input.data, input.size, choices & CHOICE_PIECES ? PIECE : SIZE_MAX);
    FUZZ_CHECK(loaded() == 0 && wire.talk->state != CONNECTION_OPEN && wire.talk->peer == 0);
    FUZZ_CHECK(wire.num_received == 0 || !memmem(wire.received, wire.num_received, name, strlen(name)));
    FUZZ_CHECK(wire.num_received <= MOST_RECEIVED);
  }
  FUZZ_CHECK(loaded() == 0 || !(choices & CHOICE_CLEAR));
  end(&wire);
  return 0;
}
