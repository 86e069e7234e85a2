// Peers that lie: strangers without the token, and peers with the token that speak for others, take their incarnations,
// widen their regions or send without end. Each harms at most itself.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/metadata/blob.h"
#include "agent/peer/load.h"
#include "agent/peer/message.h"
#include "agent/peer/message_recv.h"
#include "agent/progress/submit.h"
#include "agent/support/crowd.h"
#include "agent/support/describe.h"
#include "cmocka_all.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static struct crowd_member owner, reader;

static void open_with(struct crowd_member *member, const char *name, const char *token) {
  struct weft_agent_options options = crowd_options(name);
  options.token = token;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  crowd_open(member, &options);
}

static int open_both(void **state) {
  (void)state;
  weft_region_t region;
  void *address;
  open_with(&owner, "owner", NULL);
  open_with(&reader, "reader", NULL);
  return weft_agent_allocate(owner.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address);
}

static int close_both(void **state) {
  (void)state;
  crowd_close(&owner);
  crowd_close(&reader);
  return 0;
}

static int load(weft_agent_t *agent, const void *blob, size_t size, weft_peer_t *peer) {
  *peer = 0;
  return weft_agent_load(agent, blob, size, peer);
}

// --- seals ---

static void expect_refused(const struct crowd_member *member, void *blob, size_t size, const char *why) {
  weft_peer_t peer;
  assert_int_equal(load(member->agent, blob, size, &peer), WEFT_ERR_AUTH);
  assert_non_null(strstr(weft_last_error(), why));
  assert_true(peer == 0);
  free(blob);
}

static void test_strangers_blob(void **state) {
  (void)state;
  static struct crowd_member holder, friend, stranger, other;
  open_with(&holder, "holder", TOKEN);
  open_with(&friend, "friend", TOKEN);
  open_with(&stranger, "stranger", NULL);
  open_with(&other, "other", "another token of as many bytes!!");
  size_t size;
  void *blob = crowd_blob(stranger.agent, &size);
  expect_refused(&holder, blob, size, "not sealed");
  blob = crowd_blob(other.agent, &size);
  expect_refused(&holder, blob, size, "another token");
  blob = crowd_blob(friend.agent, &size);
  describe_seal(blob, size); // as it was: its checksum is right already
  crowd_load(holder.agent, friend.agent);
  ((uint8_t *)blob)[size - BLOB_SEAL_WHOLE - 1] ^= 1; // the last byte of a key
  describe_seal(blob, size);
  expect_refused(&holder, blob, size, "another token");
  assert_int_equal(crowd_count(&holder, LOADED, NULL), 1);
  // An agent without a token takes both kinds: its application vouches for them.
  crowd_load(stranger.agent, friend.agent);
  crowd_load(stranger.agent, other.agent);
  crowd_close(&holder);
  crowd_close(&friend);
  crowd_close(&stranger);
  crowd_close(&other);
}

// Every bit of a sealed blob, with a checksum that matches, and every length.
static void test_every_bit(void **state) {
  (void)state;
  static const uint8_t key[SECRET_KEY_SIZE] = "a key of at most 32 bytes";
  size_t size = 0;
  assert_int_equal(agent_blob_write(describe_fixed(), key, NULL, &size), WEFT_ERR_ROOM);
  uint8_t *blob = malloc(size);
  assert_int_equal(agent_blob_write(describe_fixed(), key, blob, &size), 0);
  struct agent_description *read = NULL;
  assert_int_equal(agent_blob_read(blob, size, key, &read), 0);
  assert_true(describe_equal(read, describe_fixed()));
  free(read);
  read = NULL;
  for (size_t bit = 0; bit < size * 8; bit++) {
    if (bit / 8 >= BLOB_AT_CHECKSUM && bit / 8 < BLOB_AT_SIZE)
      continue; // describe_seal() sets it
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
    describe_seal(blob, size);
    assert_int_not_equal(agent_blob_read(blob, size, key, &read), 0);
    if (bit >= AGENT_BLOB_HEAD * 8)
      assert_int_equal(agent_blob_read(blob, size, key, &read), WEFT_ERR_AUTH);
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  assert_null(read);
  free(blob);
}

// --- who it is ---

// The owner's description, to be changed by a liar, as the reader would get it.
static struct agent_description *lie(void) {
  size_t size;
  void *blob = crowd_blob(owner.agent, &size);
  struct agent_description *description;
  assert_int_equal(agent_blob_read(blob, size, NULL, &description), 0);
  free(blob);
  return description;
}

static int load_metadata(const struct agent_description *description, weft_peer_t *peer) {
  size_t size;
  void *blob = describe_write(description, &size);
  int err = load(reader.agent, blob, size, peer);
  free(blob);
  return err;
}

static void test_another_name(void **state) {
  (void)state;
  weft_peer_t known = crowd_load(reader.agent, owner.agent), peer;
  struct agent_description *description = lie();
  snprintf(description->name, sizeof description->name, "liar");
  assert_int_equal(load_metadata(description, &peer), WEFT_ERR_PROTOCOL); // the owner's incarnation
  description->incarnation = reader.agent->incarnation;
  assert_int_equal(load_metadata(description, &peer), WEFT_ERR_PROTOCOL); // the reader's own
  memcpy(description->key, reader.agent->exchange.public_key, EXCHANGE_SIZE);
  assert_int_equal(load_metadata(description, &peer), WEFT_ERR_PROTOCOL); // with its key, under another name
  memset(description->key, 0, EXCHANGE_SIZE); // a key of small order: all know what is agreed on
  assert_int_equal(agent_incarnation("liar", description->key, &description->incarnation), 0);
  assert_int_equal(load_metadata(description, &peer), WEFT_ERR_PROTOCOL);
  assert_int_equal(weft_agent_check(reader.agent, known), 0);
  assert_int_equal(crowd_count(&reader, LOADED, NULL), 1);
  free(description);
}

// A peer that is to update itself alone says that another's regions have gone.
static void test_speaks_of_another(void **state) {
  (void)state;
  static struct crowd_member liar;
  open_with(&liar, "liar", NULL);
  weft_peer_t known = crowd_load(reader.agent, owner.agent), liars = crowd_load(reader.agent, liar.agent), peer;
  struct agent_description *others = lie();
  others->num_regions = 0;
  others->change++;
  assert_int_equal(agent_adopt(reader.agent, others, liars, &peer), WEFT_ERR_PROTOCOL);
  uint32_t count = 0;
  struct weft_region_info info;
  assert_int_equal(weft_agent_regions(reader.agent, known, &info, sizeof info, count, &count), 0);
  assert_int_equal(count, 1);
  assert_int_equal(agent_adopt(reader.agent, others, known, &peer), 0); // it may say so itself
  assert_int_equal(weft_agent_regions(reader.agent, known, &info, sizeof info, count, &count), 0);
  assert_int_equal(count, 0);
  free(others);
  crowd_close(&liar);
}

// --- messages ---

static void hear(weft_agent_t *agent, uint64_t from, enum agent_message_kind kind, const void *bytes, uint32_t size) {
  uint8_t message[AGENT_HEADER + 64];
  struct agent_header header = {
      .kind = kind, .size = size, .from = from, .to = agent->incarnation, .sequence = 1, .credit = 1};
  agent_header_write(message, &header);
  if (size > 0)
    memcpy(message + AGENT_HEADER, bytes, size);
  agent_worker_lock(&agent->workers[0]);
  agent_inbox_message(&agent->workers[0], message, AGENT_HEADER + size);
  agent_worker_unlock(&agent->workers[0]);
}

static void housekeep(weft_agent_t *agent) {
  agent_wake(agent);
  weft_agent_progress(agent, NULL);
}

// All that a third one can know of two: their metadata, and the marks that it has with each.
static void test_speaks_as_another(void **state) {
  (void)state;
  static struct crowd_member liar;
  open_with(&liar, "liar", NULL);
  weft_peer_t known = crowd_load(reader.agent, owner.agent);
  weft_peer_t to_owner = crowd_load(liar.agent, owner.agent), to_reader = crowd_load(liar.agent, reader.agent);
  pthread_mutex_lock(&liar.agent->lock);
  uint64_t with_owner = agent_peer_get(liar.agent, to_owner)->mark_out;
  uint64_t of_owner = agent_peer_get(liar.agent, to_owner)->mark_in;
  uint64_t with_reader = agent_peer_get(liar.agent, to_reader)->mark_out;
  pthread_mutex_unlock(&liar.agent->lock);
  const uint64_t names[] = {owner.agent->incarnation,
                            reader.agent->incarnation,
                            liar.agent->incarnation,
                            with_owner,
                            of_owner,
                            with_reader,
                            0,
                            UINT64_MAX};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    hear(reader.agent, names[i], AGENT_NOTIFICATION, "I am the owner", 14);
    hear(reader.agent, names[i], AGENT_UPDATE, "\1\1\0\0\0\0\0\0\0", 9); // its region 1 has gone
    hear(reader.agent, names[i], AGENT_GOODBYE, NULL, 0);
  }
  housekeep(reader.agent);
  struct weft_notification notification;
  uint32_t count = 1;
  assert_int_equal(weft_agent_notifications(reader.agent, &notification, count, &count), 0);
  assert_int_equal(count, 0);
  assert_int_equal(weft_agent_check(reader.agent, known), 0);
  count = 0;
  struct weft_region_info info;
  assert_int_equal(weft_agent_regions(reader.agent, known, &info, sizeof info, count, &count), 0);
  assert_int_equal(count, 1);
  // The owner itself is heard, and ends.
  crowd_load(owner.agent, reader.agent);
  assert_int_equal(weft_agent_find(owner.agent, "reader", &to_reader), 0);
  pthread_mutex_lock(&owner.agent->lock);
  uint64_t mark = agent_peer_get(owner.agent, to_reader)->mark_out;
  pthread_mutex_unlock(&owner.agent->lock);
  hear(reader.agent, mark, AGENT_GOODBYE, NULL, 0);
  housekeep(reader.agent);
  assert_int_equal(weft_agent_check(reader.agent, known), WEFT_ERR_PEER_LOST);
  crowd_close(&liar);
}

static void test_floods(void **state) {
  (void)state;
  weft_peer_t known = crowd_load(reader.agent, owner.agent);
  pthread_mutex_lock(&reader.agent->lock);
  uint64_t mark = agent_peer_get(reader.agent, known)->mark_in;
  pthread_mutex_unlock(&reader.agent->lock);
  for (int i = 0; i < 3 * AGENT_NEWS; i++)
    hear(reader.agent, mark, AGENT_UPDATE, "\1", 1);
  assert_int_equal(atomic_load(&reader.agent->dropped), 2 * AGENT_NEWS);
  housekeep(reader.agent);
  hear(reader.agent, mark, AGENT_GOODBYE, NULL, 0); // there is room again
  housekeep(reader.agent);
  assert_int_equal(weft_agent_check(reader.agent, known), WEFT_ERR_PEER_LOST);
}

// --- regions ---

// It says in its metadata that its region is larger than its key does.
static void test_widens(void **state) {
  (void)state;
  struct agent_description *description = lie();
  struct agent_region_description *region = (struct agent_region_description *)(uintptr_t)description->regions;
  region->length *= 2;
  weft_peer_t peer;
  assert_int_equal(load_metadata(description, &peer), 0);
  weft_region_t id;
  void *address;
  weft_dlist_t *local, *remote;
  weft_transfer_t *transfer;
  struct weft_transfer_options options = WEFT_TRANSFER_OPTIONS_INIT;
  assert_int_equal(weft_agent_allocate(reader.agent, WEFT_MEMORY_HOST, 4096, 0, &id, &address), 0);
  struct weft_descriptor here = {.address = (uintptr_t)address, .length = 64, .region = id};
  struct weft_descriptor there = {.address = region->address, .length = 64, .region = region->id};
  assert_int_equal(weft_dlist_create(reader.agent, WEFT_PEER_SELF, &here, 1, &local), 0);
  assert_int_equal(weft_dlist_create(reader.agent, peer, &there, 1, &remote), 0);
  assert_int_not_equal(weft_transfer_create(reader.agent, WEFT_TRANSFER_READ, local, remote, &options, &transfer), 0);
  assert_non_null(strstr(weft_last_error(), "is for other memory"));
  free(description);
}

static void test_contradicts(void **state) {
  (void)state;
  struct agent_description *description = lie();
  struct agent_region_description *region = (struct agent_region_description *)(uintptr_t)description->regions;
  const struct agent_region_description honest = *region;
  weft_peer_t peer;
  region->length = UINT64_MAX;
  assert_int_equal(load_metadata(description, &peer), WEFT_ERR_PROTOCOL);
  region->length = 0;
  assert_int_equal(load_metadata(description, &peer), WEFT_ERR_PROTOCOL);
  *region = honest;
  region->kind = WEFT_MEMORY_FILE; // which begins at 0
  assert_int_equal(load_metadata(description, &peer), WEFT_ERR_PROTOCOL);
  *region = honest;
  assert_int_equal(load_metadata(description, &peer), 0);
  free(description);
}

// It adds regions for ever: what it may have is bounded, and it lives on with these.
static void test_without_end(void **state) {
  (void)state;
  enum { AT_ONCE = AGENT_MAX_REGIONS / 2 };
  weft_peer_t known = crowd_load(reader.agent, owner.agent), peer;
  struct agent_description *description = lie();
  struct agent_region_description *regions = calloc(AT_ONCE, sizeof *regions);
  description->complete = description->all_regions = false;
  description->regions = regions;
  description->num_regions = AT_ONCE;
  int err = 0;
  uint32_t times = 0;
  for (; times < 4 && err == 0; times++) {
    for (uint32_t i = 0; i < AT_ONCE; i++)
      regions[i] = (struct agent_region_description){.id = 10 + (uint64_t)times * AT_ONCE + i,
                                                     .address = (10 + (uint64_t)times * AT_ONCE + i) << 12,
                                                     .length = 64};
    description->change++;
    err = load_metadata(description, &peer);
  }
  assert_int_equal(err, WEFT_ERR_LIMIT);
  assert_int_equal(times, 2); // with the one that it had, the second half is one too many
  uint32_t count = 0;
  struct weft_region_info info;
  assert_int_equal(weft_agent_regions(reader.agent, known, &info, sizeof info, count, &count), 0);
  assert_int_equal(count, 1 + AT_ONCE);
  assert_int_equal(reader.agent->foreign, 1 + AT_ONCE);
  assert_int_equal(weft_agent_invalidate(reader.agent, known), 0);
  housekeep(reader.agent);
  assert_int_equal(reader.agent->foreign, 0);
  printf("  a region of a peer takes %zu bytes and its keys\n", sizeof(struct agent_region));
  free(regions);
  free(description);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_strangers_blob),
      cmocka_unit_test(test_every_bit),
      cmocka_unit_test_setup_teardown(test_another_name, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_speaks_of_another, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_speaks_as_another, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_floods, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_widens, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_contradicts, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_without_end, open_both, close_both),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
