// A peer that lies in its metadata: it has the token like any peer, and names memory that nobody shared with it. The
// target loads this metadata and copies to and from "the peer's" region, as any agent does that serves others.
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/metadata/describe.h"
#include "agent/peer/load.h"
#include "base/random.h"
#include "base/wire/crc32c.h"
#include "cmocka_all.h"
#include "support/wait.h"

enum { BYTES = 4096 };

// Where the fields of a key of shm stand.
enum { KEY_ADDRESS = 12 + 16, KEY_LENGTH = 12 + 24, KEY_MAX = 1024 };

// Not lent to anybody, in the target's memory.
static uint8_t secret[BYTES];

struct party {
  weft_agent_t *agent;
  weft_region_t region;
  uint8_t *memory; // BYTES, lent to all
  struct agent_description *said;
};

static struct party target, liar, third, storing;

static void party_open(struct party *party, const char *name, const char *transports) {
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.name = name;
  options.transports = transports;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  assert_int_equal(weft_agent_open(&party->agent, &options), 0);
  void *memory;
  assert_int_equal(weft_agent_allocate(party->agent, WEFT_MEMORY_HOST, BYTES, -1, &party->region, &memory), 0);
  party->memory = memory;
  assert_int_equal(agent_describe(party->agent, NULL, 0, true, &party->said), 0);
}

static void party_close(struct party *party) {
  free(party->said);
  weft_agent_close(party->agent);
}

static int set_up(void **state) {
  (void)state;
  memset(secret, 's', sizeof secret);
  party_open(&target, "target", "shm");
  party_open(&liar, "liar", "shm");
  party_open(&third, "third", "shm");
  party_open(&storing, "storing", "shm,file");
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  party_close(&storing);
  party_close(&third);
  party_close(&liar);
  party_close(&target);
  return 0;
}

// A key that says something else from byte `at` on, with the checksum that fits.
static void forge(uint8_t *key, size_t size, size_t at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    key[at + i] = (uint8_t)(value >> 8 * i);
  uint32_t sum = crc32c(0, key, size - 4);
  for (size_t i = 0; i < 4; i++)
    key[size - 4 + i] = (uint8_t)(sum >> 8 * i);
}

// What the liar tells: the address of one, a key of another, and a region where it says that it is.
struct lie {
  const struct party *address, *key;
  uint64_t at, length;      // of the region, in its key too
  enum weft_transfer_op op; // what the target is asked to do
  bool moves;               // the key is changed to that range
  bool owns;                // it shows the incarnation of whom the address is of
};

static struct agent_key key_of(const struct party *party, const struct lie *lie, uint8_t bytes[KEY_MAX]) {
  const struct agent_key *found = NULL;
  for (uint32_t i = 0; i < party->said->num_regions; i++)
    if (party->said->regions[i].id == party->region)
      for (uint32_t k = 0; k < party->said->regions[i].num_keys; k++)
        if (strcmp(party->said->transports[party->said->regions[i].keys[k].transport].name, "shm") == 0)
          found = &party->said->regions[i].keys[k];
  assert_non_null(found);
  assert_true(found->size <= KEY_MAX);
  memcpy(bytes, found->bytes, found->size);
  if (lie->moves) {
    forge(bytes, found->size, KEY_ADDRESS, lie->at, 8);
    forge(bytes, found->size, KEY_LENGTH, lie->length, 8);
  }
  return (struct agent_key){.transport = 0, .size = found->size, .bytes = bytes};
}

static struct agent_transport address_of(const struct party *party) {
  for (uint32_t i = 0; i < party->said->num_transports; i++)
    if (strcmp(party->said->transports[i].name, "shm") == 0)
      return party->said->transports[i];
  fail_msg("an agent without shm");
  return (struct agent_transport){.name = ""};
}

// The target adopts the lie and makes the transfer that it is asked for; 0: it has been done.
static int serve(const struct lie *lie) {
  uint8_t bytes[KEY_MAX];
  struct agent_key key = key_of(lie->key, lie, bytes);
  struct agent_region_description region = {.id = 1,
                                            .kind = WEFT_MEMORY_HOST,
                                            .address = lie->at,
                                            .length = lie->length,
                                            .device = -1,
                                            .num_keys = 1,
                                            .keys = &key};
  struct agent_description told = *liar.said;
  strcpy(told.name, lie->owns ? "liar" : "somebody");
  told.incarnation = lie->owns ? liar.said->incarnation : random_id();
  told.num_transports = 1;
  told.transports[0] = address_of(lie->address);
  told.num_regions = 1;
  told.regions = &region;
  weft_peer_t peer = 0;
  weft_dlist_t *local = NULL, *remote = NULL;
  weft_transfer_t *transfer = NULL;
  struct weft_descriptor here = {(uintptr_t)target.memory, BYTES, target.region}, there = {lie->at, BYTES, 1};
  int rc = agent_adopt(target.agent, &told, 0, &peer);
  if (rc == 0)
    rc = weft_dlist_create(target.agent, WEFT_PEER_SELF, &here, 1, &local);
  if (rc == 0)
    rc = weft_dlist_create(target.agent, peer, &there, 1, &remote);
  if (rc == 0)
    rc = weft_transfer_create(target.agent, lie->op, local, remote, NULL, &transfer);
  if (rc == 0)
    rc = weft_transfer_post(transfer);
  if (rc == 0)
    rc = weft_transfer_wait(transfer, SUPPORT_DEADLINE_MS);
  if (rc != 0)
    assert_true(weft_last_error()[0] != '\0');
  weft_transfer_free(transfer);
  weft_dlist_free(local);
  weft_dlist_free(remote);
  return rc;
}

static void expect_nothing(const struct lie *lie) {
  memset(target.memory, 't', BYTES);
  if (serve(lie) == 0)
    fail_msg("the target did what the liar asked for: it %s", lie->op == WEFT_TRANSFER_READ ? "read" : "wrote");
  for (int i = 0; i < BYTES; i++) {
    assert_int_equal(secret[i], 's');
    assert_int_equal(target.memory[i], 't');
  }
}

// The attack as it was found: the target's own address under another name, and its key moved to what it never lent.
static void test_targets_own_address(void **state) {
  (void)state;
  for (int op = 0; op < 2; op++) {
    const struct lie lie = {.address = &target,
                            .key = &target,
                            .at = (uintptr_t)secret,
                            .length = BYTES,
                            .op = op ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ,
                            .moves = true};
    expect_nothing(&lie);
  }
}

// What it was lent is no better as its own.
static void test_targets_own_address_and_key(void **state) {
  (void)state;
  expect_nothing(&(struct lie){
      .address = &target, .key = &target, .at = (uintptr_t)target.memory, .length = BYTES, .op = WEFT_TRANSFER_READ});
}

static void test_another_agents_address(void **state) {
  (void)state;
  memset(third.memory, '3', BYTES);
  expect_nothing(&(struct lie){
      .address = &third, .key = &third, .at = (uintptr_t)third.memory, .length = BYTES, .op = WEFT_TRANSFER_WRITE});
  for (int i = 0; i < BYTES; i++)
    assert_int_equal(third.memory[i], '3');
}

// It is who it says, and has moved a key of its own to other memory of the process.
static void test_moved_key(void **state) {
  (void)state;
  for (int op = 0; op < 2; op++)
    expect_nothing(&(struct lie){.address = &liar,
                                 .key = &liar,
                                 .at = (uintptr_t)secret,
                                 .length = BYTES,
                                 .op = op ? WEFT_TRANSFER_WRITE : WEFT_TRANSFER_READ,
                                 .moves = true,
                                 .owns = true});
}

static void test_widened_key(void **state) {
  (void)state;
  expect_nothing(&(struct lie){.address = &liar,
                               .key = &liar,
                               .at = (uintptr_t)liar.memory,
                               .length = 2 * BYTES,
                               .op = WEFT_TRANSFER_READ,
                               .moves = true,
                               .owns = true});
}

static void test_key_of_another(void **state) {
  (void)state;
  memset(third.memory, '3', BYTES);
  expect_nothing(&(struct lie){.address = &liar,
                               .key = &third,
                               .at = (uintptr_t)third.memory,
                               .length = BYTES,
                               .op = WEFT_TRANSFER_WRITE,
                               .owns = true});
  for (int i = 0; i < BYTES; i++)
    assert_int_equal(third.memory[i], '3');
}

// Storage and the copies within an agent have no way to a peer: whatever it says of theirs is not even looked at.
static void test_transports_that_reach_no_peer(void **state) {
  (void)state;
  static const char *const names[] = {"self", "file", "object"};
  uint64_t guess = (uintptr_t)secret;
  struct agent_key key = {.transport = 0, .size = sizeof guess, .bytes = &guess};
  struct agent_region_description region = {.id = 1,
                                            .kind = WEFT_MEMORY_HOST,
                                            .address = (uintptr_t)secret,
                                            .length = BYTES,
                                            .device = -1,
                                            .num_keys = 1,
                                            .keys = &key};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct agent_description told = *liar.said;
    told.num_transports = 1;
    told.transports[0] = (struct agent_transport){.address = &guess, .address_size = sizeof guess};
    strcpy(told.transports[0].name, names[i]);
    told.num_regions = 1;
    told.regions = &region;
    weft_peer_t peer;
    assert_int_equal(agent_adopt(storing.agent, &told, 0, &peer), WEFT_ERR_UNREACHABLE);
    assert_non_null(strstr(weft_last_error(), "no transport is common"));
  }
  for (uint32_t i = 0; i < storing.said->num_transports; i++) // and nothing of theirs is told
    assert_string_equal(storing.said->transports[i].name, "shm");
}

// The same way with the truth works: the tests above fail for what they say.
static void test_the_truth(void **state) {
  (void)state;
  memset(liar.memory, 'l', BYTES);
  const struct lie truth = {.address = &liar,
                            .key = &liar,
                            .at = (uintptr_t)liar.memory,
                            .length = BYTES,
                            .op = WEFT_TRANSFER_READ,
                            .owns = true};
  assert_int_equal(serve(&truth), 0);
  for (int i = 0; i < BYTES; i++)
    assert_int_equal(target.memory[i], 'l');
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_targets_own_address, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_targets_own_address_and_key, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_another_agents_address, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_moved_key, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_widened_key, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_key_of_another, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_transports_that_reach_no_peer, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_the_truth, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
