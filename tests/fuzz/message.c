// Messages of a known agent, and of others: data that is passed to the application is within its bounds, comes from its
// stated sender, and is not more than the sender may have sent.
//
// An input: messages, each a byte of choices, one of kind, two of size, eight of sequence, eight of credit, the
// content.
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#include "agent/peer/message.h"
#include "agent/peer/message_recv.h"
#include "agent/peer/table.h"
#include "agent/progress/progress.h"
#include "agent/progress/submit.h"
#include "fuzz/support/fuzz.h"

enum {
  CHOICE_FROM_ANOTHER = 1,
  CHOICE_TO_ANOTHER = 2,
  CHOICE_FROM_SELF = 4,
  CHOICE_OTHER_SIZE = 8,
  CHOICE_SHORT = 16,
  CHOICE_MAGIC = 32,
  CHOICE_TEND = 64,
  CHOICE_READ = 128,
  AT_ONCE = 5, // notifications that are read
};

static weft_agent_t *agent, *other;
static weft_peer_t peer;

static weft_agent_t *open_agent(const char *name) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  weft_agent_t *opened;
  options.name = name;
  options.transports = "shm";
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  options.heartbeat_ms = 60000;
  options.peer_timeout_ms = 600000;
  FUZZ_CHECK(weft_agent_open(&opened, &options) == 0);
  return opened;
}

// The other agent may have announced that it leaves.
static void know_other(void) {
  if (peer != 0 && weft_agent_check(agent, peer) == 0)
    return;
  weft_agent_progress(other, NULL); // it releases the peer that has gone
  size_t size = 0;
  FUZZ_CHECK(weft_agent_metadata(other, NULL, NULL, 0, &size) == 0);
  uint8_t *blob = malloc(size);
  FUZZ_CHECK(blob && weft_agent_metadata(other, NULL, blob, size, &size) == 0);
  FUZZ_CHECK(weft_agent_load(agent, blob, size, &peer) == 0);
  free(blob);
}

static void housekeep(void) {
  agent_wake(agent);
  weft_agent_progress(agent, NULL);
}

static uint32_t read_some(void) {
  struct weft_notification got[AT_ONCE];
  uint32_t count = AT_ONCE;
  FUZZ_CHECK(weft_agent_notifications(agent, got, count, &count) == 0 && count <= AT_ONCE);
  for (uint32_t i = 0; i < count; i++) {
    FUZZ_CHECK(got[i].size <= WEFT_AGENT_MAX_NOTIFICATION && got[i].peer != 0);
    uint8_t sum = 0;
    for (uint32_t j = 0; j < got[i].size; j++) // all of it is there
      sum ^= ((const uint8_t *)got[i].bytes)[j];
    static volatile uint8_t kept;
    kept = sum;
    (void)kept;
  }
  return count;
}

// The mark that the other's messages have.
static uint64_t mark_of_other(void) {
  pthread_mutex_lock(&agent->lock);
  uint64_t mark = agent_peer_get(agent, peer)->mark_in;
  pthread_mutex_unlock(&agent->lock);
  return mark;
}

static void receive(struct fuzz_input *input, uint8_t choices) {
  struct agent_header header = {.from = mark_of_other(), .to = agent->incarnation};
  uint8_t kind;
  uint16_t size;
  fuzz_bytes(input, &kind, sizeof kind);
  fuzz_bytes(input, &size, sizeof size);
  fuzz_bytes(input, &header.sequence, sizeof header.sequence);
  fuzz_bytes(input, &header.credit, sizeof header.credit);
  size %= TRANSPORT_MAX_MESSAGE - AGENT_HEADER + 1;
  header.kind = kind;
  header.size = size + (choices & CHOICE_OTHER_SIZE ? 1 : 0);
  if (choices & CHOICE_FROM_ANOTHER)
    header.from++;
  if (choices & CHOICE_FROM_SELF)
    header.from = agent->self.mark_in;
  if (choices & CHOICE_TO_ANOTHER)
    header.to++;
  size_t whole = choices & CHOICE_SHORT ? size % AGENT_HEADER : AGENT_HEADER + size;
  uint8_t *bytes = malloc(whole), head[AGENT_HEADER]; // of this very size, so that a read behind it shows
  FUZZ_CHECK(bytes);
  agent_header_write(head, &header);
  head[0] ^= choices & CHOICE_MAGIC ? 1 : 0;
  memcpy(bytes, head, whole < sizeof head ? whole : sizeof head);
  if (whole > sizeof head)
    fuzz_bytes(input, bytes + sizeof head, whole - sizeof head);
  agent_worker_lock(&agent->workers[0]);
  agent_inbox_message(&agent->workers[0], bytes, whole);
  agent_worker_unlock(&agent->workers[0]);
  free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!agent) {
    agent = open_agent("fuzzed");
    other = open_agent("other");
  }
  uint32_t received = 0, read = 0;
  for (struct fuzz_input input = {(const char *)data, size}; input.size > 0; received++) {
    uint8_t choices;
    fuzz_bytes(&input, &choices, sizeof choices);
    know_other();
    receive(&input, choices);
    if (choices & CHOICE_TEND)
      housekeep();
    if (choices & CHOICE_READ)
      read += read_some();
  }
  for (uint32_t more; (more = read_some()) > 0;)
    read += more;
  FUZZ_CHECK(read <= received);
  housekeep();
  return 0;
}
