// Agents that listen and call on the loopback interface, for the tests of the exchange by socket.
#include "agent/exchange/support/meeting.h"

#include <stdio.h>

#include "cmocka_all.h"
#include "support/entries.h"
#include "support/wait.h"

const char meet_token[] = "correct horse battery staple";

void meet_listener(struct crowd_member *member, const char *name, const char *listen) {
  struct weft_agent_options options = crowd_options(name);
  options.listen = listen;
  options.token = meet_token;
  crowd_open(member, &options);
}

void meet_caller(struct crowd_member *member, const char *name, const char *secret) {
  struct weft_agent_options options = crowd_options(name);
  options.token = secret;
  crowd_open(member, &options);
}

uint16_t meet_port(struct crowd_member *member) {
  uint16_t port = 0;
  assert_int_equal(weft_agent_port(member->agent, &port), 0);
  assert_true(port > 0);
  return port;
}

int meet_at(struct crowd_member *member, uint16_t port, uint32_t timeout_ms, weft_peer_t *peer) {
  char address[64];
  snprintf(address, sizeof address, "127.0.0.1:%u", port);
  return weft_agent_meet(member->agent, address, timeout_ms, peer);
}

weft_peer_t meet(struct crowd_member *member, struct crowd_member *listener) {
  weft_peer_t peer = 0;
  int err = meet_at(member, meet_port(listener), SUPPORT_DEADLINE_MS, &peer);
  if (err)
    fail_msg("meet: %s: %s", weft_err_name(err), weft_last_error());
  return peer;
}

int meet_run(int (*tests)(void)) {
  int before = support_descriptors();
  int failed = tests();
  if (failed == 0 && support_descriptors() != before) {
    printf("%d descriptors before, %d behind\n", before, support_descriptors());
    return 1;
  }
  return failed;
}
