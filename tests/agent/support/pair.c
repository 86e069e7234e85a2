// Two agents of one process that have loaded each other's metadata, and their transfers.
#include "agent/support/pair.h"

#include <stdlib.h>
#include <string.h>

#include "cmocka_all.h"

#include "agent/metadata/describe.h"
#include "agent/open.h"
#include "agent/peer/load.h"
#include "agent/support/owned.h"
#include "base/time/clock.h"
#include "support/wait.h"

static void open_end(struct pair_end *end, const char *name, const char *transports,
                     const struct transport *const *more, const struct weft_agent_options *given) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  if (given)
    options = *given;
  options.name = name;
  options.transports = transports;
  int rc = agent_open_with(&end->agent, &options, more);
  if (rc != 0)
    fail_msg("agent %s does not open: %s", name, weft_last_error());
  void *memory;
  assert_int_equal(weft_agent_allocate(end->agent, WEFT_MEMORY_HOST, PAIR_BYTES, -1, &end->region, &memory), 0);
  end->memory = memory;
}

int pair_load_metadata(weft_agent_t *from, weft_agent_t *to, weft_peer_t *peer) {
  struct agent_description *description;
  int rc = agent_describe(from, NULL, 0, true, &description);
  if (rc == 0) {
    rc = agent_adopt(to, description, 0, peer);
    free(description);
  }
  return rc;
}

void pair_acquaint(struct pair *pair) {
  if (pair_load_metadata(pair->b.agent, pair->a.agent, &pair->a.peer) != 0 ||
      pair_load_metadata(pair->a.agent, pair->b.agent, &pair->b.peer) != 0)
    fail_msg("they do not get to know each other: %s", weft_last_error());
}

void pair_open(struct pair *pair, const char *transports, const struct transport *const *more,
               const struct weft_agent_options *options) {
  memset(pair, 0, sizeof *pair);
  open_end(&pair->a, "a", transports, more, options);
  open_end(&pair->b, "b", transports, more, options);
  pair_acquaint(pair);
}

void pair_close(struct pair *pair) {
  owned_close(pair->a.agent);
  owned_close(pair->b.agent);
  memset(pair, 0, sizeof *pair);
}

weft_dlist_t *pair_list(struct pair_end *by, struct pair_end *of, uint64_t offset, uint64_t length) {
  struct weft_descriptor one = {(uintptr_t)of->memory + offset, length, of->region};
  weft_dlist_t *list = NULL;
  if (weft_dlist_create(by->agent, by == of ? WEFT_PEER_SELF : by->peer, &one, 1, &list) != 0)
    fail_msg("no list: %s", weft_last_error());
  return list;
}

weft_transfer_t *pair_transfer(struct pair *pair, enum weft_transfer_op op, uint64_t here, uint64_t there,
                               uint64_t length, const struct weft_transfer_options *options) {
  weft_dlist_t *local = pair_list(&pair->a, &pair->a, here, length);
  weft_dlist_t *remote = pair_list(&pair->a, &pair->b, there, length);
  weft_transfer_t *transfer = NULL;
  if (weft_transfer_create(pair->a.agent, op, local, remote, options, &transfer) != 0)
    fail_msg("no transfer: %s", weft_last_error());
  return transfer;
}

void pair_free(weft_transfer_t *transfer) {
  weft_dlist_t *local = transfer->local, *remote = transfer->remote;
  assert_int_equal(weft_transfer_free(transfer), 0);
  assert_int_equal(weft_dlist_free(local), 0);
  assert_int_equal(weft_dlist_free(remote), 0);
}

bool pair_until(struct pair *pair, bool (*condition)(void *arg), void *arg) {
  uint64_t until = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  while (!condition(arg)) {
    if (clock_passed(until))
      return false;
    if (pair->a.agent)
      weft_agent_progress(pair->a.agent, NULL);
    if (pair->b.agent)
      weft_agent_progress(pair->b.agent, NULL);
  }
  return true;
}

struct hearing {
  struct pair_end *end;
  struct weft_notification got;
};

static bool heard(void *arg) {
  struct hearing *hearing = arg;
  uint32_t count = 1;
  assert_int_equal(weft_agent_notifications(hearing->end->agent, &hearing->got, count, &count), 0);
  return count == 1;
}

uint32_t pair_hear(struct pair *pair, struct pair_end *end, void *bytes, uint32_t room) {
  struct hearing hearing = {.end = end};
  if (!pair_until(pair, heard, &hearing))
    fail_msg("no notification came");
  assert_true(hearing.got.size <= room);
  memcpy(bytes, hearing.got.bytes, hearing.got.size);
  return hearing.got.size;
}
