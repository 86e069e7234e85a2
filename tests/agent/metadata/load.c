// Metadata that the application transports itself: complete and partial, old and new, damaged and foreign.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/agent.h"
#include "agent/metadata/blob.h"
#include "agent/peer/peer.h"
#include "agent/support/crowd.h"
#include "agent/support/describe.h"
#include "base/time/clock.h"
#include "base/wire/wire.h"
#include "cmocka_all.h"
#include "support/wait.h"

static struct crowd_member owner, reader;

static int open_both(void **state) {
  (void)state;
  struct weft_agent_options options = crowd_options("owner");
  crowd_open(&owner, &options);
  options = crowd_options("reader");
  crowd_open(&reader, &options);
  return 0;
}

static int close_both(void **state) {
  (void)state;
  crowd_close(&reader);
  crowd_close(&owner);
  return 0;
}

static weft_region_t allocate(void) {
  weft_region_t region;
  void *address;
  assert_int_equal(weft_agent_allocate(owner.agent, WEFT_MEMORY_HOST, 4096, 0, &region, &address), 0);
  return region;
}

// The ids that the reader knows; returns their number.
static uint32_t known(weft_peer_t peer, weft_region_t *ids) {
  struct weft_region_info info[8];
  uint32_t count = 8;
  assert_int_equal(weft_agent_regions(reader.agent, peer, info, sizeof *info, count, &count), 0);
  for (uint32_t i = 0; i < count; i++)
    ids[i] = info[i].region;
  return count;
}

static size_t write_blob(const weft_region_t *regions, uint32_t count, bool complete, void *blob, size_t room) {
  struct weft_metadata_options options = WEFT_METADATA_OPTIONS_INIT;
  options.flags = (complete ? WEFT_METADATA_ADDRESSES : 0) | (regions ? 0 : WEFT_METADATA_ALL_REGIONS);
  options.regions = regions;
  options.num_regions = count;
  size_t size = 0;
  assert_int_equal(weft_agent_metadata(owner.agent, &options, blob, room, &size), 0);
  return size;
}

static void test_whole_and_part(void **state) {
  (void)state;
  char all[4096], part[4096], stale[4096];
  weft_region_t first = allocate(), ids[8];
  size_t stale_size = write_blob(NULL, 0, true, stale, sizeof stale);
  weft_region_t second = allocate(), third = allocate();
  size_t all_size = write_blob(&first, 1, true, all, sizeof all); // one of three
  weft_peer_t peer = 0, other = 0;
  assert_int_equal(weft_agent_load(reader.agent, all, all_size, &peer), 0);
  assert_int_equal(known(peer, ids), 1);
  assert_true(ids[0] == first);
  size_t part_size = write_blob(&third, 1, false, part, sizeof part);
  assert_int_equal(weft_agent_load(reader.agent, part, part_size, &other), 0);
  assert_true(other == peer);
  assert_int_equal(known(peer, ids), 2); // added
  assert_true(ids[0] == first && ids[1] == third);
  assert_int_equal(weft_agent_load(reader.agent, stale, stale_size, &other), 0); // older: it changes nothing
  assert_int_equal(known(peer, ids), 2);
  assert_int_equal(weft_agent_load(reader.agent, all, all_size, &other), 0); // again: nothing new
  assert_int_equal(crowd_count(&reader, LOADED, "owner"), 1);
  assert_int_equal(crowd_count(&reader, UPDATED, "owner"), 1);
  assert_int_equal(weft_agent_find(reader.agent, "owner", &other), 0);
  assert_true(other == peer);
  (void)second;
}

// What an application leaves out on purpose is not there: an empty selection was once all regions.
static void test_no_region_is_chosen(void **state) {
  (void)state;
  char none[4096], whole[4096];
  weft_region_t region = allocate(), ids[8];
  size_t none_size = write_blob(&region, 0, true, none, sizeof none);
  weft_peer_t peer = 0;
  assert_int_equal(weft_agent_load(reader.agent, none, none_size, &peer), 0);
  assert_int_equal(known(peer, ids), 0);
  size_t whole_size = write_blob(NULL, 0, true, whole, sizeof whole);
  assert_int_equal(weft_agent_load(reader.agent, whole, whole_size, &peer), 0);
  assert_int_equal(known(peer, ids), 1);
  assert_int_equal(weft_agent_load(reader.agent, none, none_size, &peer),
                   0); // some regions, none of them: no more, no less
  assert_int_equal(known(peer, ids), 1);
}

static void test_part_of_nothing(void **state) {
  (void)state;
  char part[4096];
  weft_region_t region = allocate();
  size_t size = write_blob(&region, 1, false, part, sizeof part);
  weft_peer_t peer = 9;
  assert_int_equal(weft_agent_load(reader.agent, part, size, &peer), WEFT_ERR_NOT_FOUND);
  assert_true(peer == 9);
}

static void test_own(void **state) {
  (void)state;
  assert_true(crowd_load(owner.agent, owner.agent) == WEFT_PEER_SELF);
  struct crowd_member twin;
  struct weft_agent_options options = crowd_options("owner");
  crowd_open(&twin, &options);
  size_t size;
  void *blob = crowd_blob(twin.agent, &size);
  weft_peer_t peer;
  assert_int_equal(weft_agent_load(owner.agent, blob, size, &peer), WEFT_ERR_EXISTS);
  free(blob);
  crowd_close(&twin);
}

static void test_arguments(void **state) {
  (void)state;
  char blob[4096];
  size_t size = sizeof blob;
  weft_region_t none = 12345;
  weft_peer_t peer;
  assert_int_equal(weft_agent_metadata(NULL, NULL, blob, size, &size), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_metadata(owner.agent, NULL, blob, sizeof blob, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_metadata(owner.agent, NULL, NULL, sizeof blob, &size), WEFT_ERR_INVALID);
  struct weft_metadata_options some = WEFT_METADATA_OPTIONS_INIT;
  some.num_regions = 1;
  some.regions = &none;
  assert_int_equal(weft_agent_metadata(owner.agent, &some, blob, sizeof blob, &size), WEFT_ERR_INVALID); // and all
  some.flags = WEFT_METADATA_ADDRESSES;
  assert_int_equal(weft_agent_metadata(owner.agent, &some, blob, sizeof blob, &size), WEFT_ERR_NOT_FOUND);
  some.regions = NULL;
  assert_int_equal(weft_agent_metadata(owner.agent, &some, blob, sizeof blob, &size), WEFT_ERR_INVALID);
  some.flags = 1u << 31;
  some.num_regions = 0;
  assert_int_equal(weft_agent_metadata(owner.agent, &some, blob, sizeof blob, &size), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "0x80000000"));
  memset(blob, 0x55, sizeof blob);
  assert_int_equal(weft_agent_metadata(owner.agent, NULL, blob, 10, &size), WEFT_ERR_ROOM);
  assert_true(size > 10 && blob[0] == 0x55 && blob[10] == 0x55);
  size_t need = 0;
  assert_int_equal(weft_agent_metadata(owner.agent, NULL, NULL, 0, &need), 0); // asks
  assert_true(need == size);
  assert_int_equal(weft_agent_load(reader.agent, NULL, 5, &peer), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_load(reader.agent, blob, 5, NULL), WEFT_ERR_INVALID);
  assert_int_equal(weft_agent_load(reader.agent, blob, 0, &peer), WEFT_ERR_PROTOCOL);
}

// All or nothing, for an agent too: no peer, no event, and the same blob whole is taken afterwards.
static void test_damaged(void **state) {
  (void)state;
  allocate();
  size_t size;
  uint8_t *blob = crowd_blob(owner.agent, &size);
  weft_peer_t peer = 9;
  for (size_t less = 0; less < size; less++)
    assert_int_equal(weft_agent_load(reader.agent, blob, less, &peer), WEFT_ERR_PROTOCOL);
  for (size_t bit = 0; bit < size * 8; bit++) {
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(weft_agent_load(reader.agent, blob, size, &peer), WEFT_ERR_PROTOCOL);
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  struct wire_writer writer = {.bytes = blob, .capacity = size};
  wire_patch_number(&writer, 10, BLOB_VERSION + 1, 2);
  describe_seal(blob, size);
  assert_int_equal(weft_agent_load(reader.agent, blob, size, &peer), WEFT_ERR_VERSION);
  assert_true(peer == 9);
  assert_int_equal(crowd_count(&reader, LOADED, NULL), 0);
  wire_patch_number(&writer, 10, BLOB_MINIMUM_READER, 2);
  describe_seal(blob, size);
  assert_int_equal(weft_agent_load(reader.agent, blob, size, &peer), 0);
  free(blob);
}

// With a head that is right, and anything behind it: whatever is taken, the agent stands, and lets go of it.
static void test_sealed(void **state) {
  (void)state;
  allocate();
  size_t size;
  uint8_t *blob = crowd_blob(owner.agent, &size);
  for (size_t bit = AGENT_BLOB_HEAD * 8; bit < size * 8; bit++) {
    weft_peer_t peer = 0;
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
    describe_seal(blob, size);
    if (weft_agent_load(reader.agent, blob, size, &peer) == 0 && peer != WEFT_PEER_SELF)
      weft_agent_invalidate(reader.agent, peer);
    blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  free(blob);
  // The owner takes back the places of so many short connections in its own time.
  blob = crowd_blob(owner.agent, &size);
  weft_peer_t peer;
  int rc = WEFT_ERR_LIMIT;
  for (uint64_t until_ns = clock_deadline_ms(SUPPORT_DEADLINE_MS); rc == WEFT_ERR_LIMIT && !clock_passed(until_ns);)
    rc = weft_agent_load(reader.agent, blob, size, &peer);
  assert_int_equal(rc, 0);
  free(blob);
}

// However soon: whoever drives this agent has not looked between a region's beginning and its end.
static void test_gone_at_once(void **state) {
  (void)state;
  struct crowd_member idle;
  struct weft_agent_options options = crowd_options("idle");
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  crowd_open(&idle, &options);
  weft_region_t regions[3], ids[8];
  void *address;
  for (int i = 0; i < 3; i++)
    assert_int_equal(weft_agent_allocate(idle.agent, WEFT_MEMORY_HOST, 4096, 0, &regions[i], &address), 0);
  weft_peer_t peer = crowd_load(reader.agent, idle.agent);
  crowd_load(idle.agent, reader.agent);
  assert_int_equal(known(peer, ids), 3);
  assert_int_equal(weft_agent_deregister(idle.agent, regions[2]), 0);
  assert_int_equal(weft_agent_deregister(idle.agent, regions[0]), 0);
  assert_int_equal(weft_agent_progress(idle.agent, NULL), 0);
  crowd_await(&reader, UPDATED, "idle", 1);
  assert_int_equal(known(peer, ids), 1);
  assert_true(ids[0] == regions[1]);
  crowd_close(&idle);
}

// Metadata from before the end of a region, loaded once more behind it.
static void test_gone_stays_gone(void **state) {
  (void)state;
  char old[4096], part[4096];
  weft_region_t first = allocate(), second = allocate(), ids[8];
  size_t old_size = write_blob(NULL, 0, true, old, sizeof old);
  size_t part_size = write_blob(&first, 1, false, part, sizeof part);
  weft_peer_t peer = 0;
  assert_int_equal(weft_agent_load(reader.agent, old, old_size, &peer), 0);
  crowd_load(owner.agent, reader.agent);
  assert_int_equal(known(peer, ids), 2);
  assert_int_equal(weft_agent_deregister(owner.agent, first), 0);
  crowd_await(&reader, UPDATED, "owner", 1);
  assert_int_equal(known(peer, ids), 1);
  assert_int_equal(weft_agent_load(reader.agent, old, old_size, &peer), 0);
  assert_int_equal(weft_agent_load(reader.agent, part, part_size, &peer), 0);
  assert_int_equal(known(peer, ids), 1);
  assert_true(ids[0] == second);
  assert_int_equal(crowd_count(&reader, UPDATED, "owner"), 1);
  weft_region_t third = allocate(); // what is younger is taken
  size_t size = write_blob(NULL, 0, true, old, sizeof old);
  assert_int_equal(weft_agent_load(reader.agent, old, size, &peer), 0);
  assert_int_equal(known(peer, ids), 2);
  assert_true(ids[0] == second && ids[1] == third);
}

static _Atomic int wrap_lost; // updates that cannot be sent

int __real_agent_send(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
                      uint32_t size);
int __wrap_agent_send(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
                      uint32_t size);

int __wrap_agent_send(weft_agent_t *agent, struct agent_peer *peer, enum agent_message_kind kind, const void *bytes,
                      uint32_t size) {
  if (kind == AGENT_UPDATE && atomic_load(&wrap_lost) > 0 && atomic_fetch_sub(&wrap_lost, 1) > 0)
    return WEFT_ERR_NOMEM;
  return __real_agent_send(agent, peer, kind, bytes, size);
}

static bool is_gone(void *arg) {
  struct weft_region_info info;
  uint32_t count = 0;
  return weft_agent_regions(reader.agent, *(weft_peer_t *)arg, &info, sizeof info, 1, &count) == 0 && count == 0;
}

// Two of the messages cannot be sent at first.
static void test_gone_is_said_again(void **state) {
  (void)state;
  enum { REGIONS = 300 };
  static char memory[REGIONS];
  weft_region_t regions[REGIONS];
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  what.length = 1;
  for (int i = 0; i < REGIONS; i++) {
    what.address = memory + i;
    assert_int_equal(weft_agent_register(owner.agent, &what, &regions[i]), 0);
  }
  weft_peer_t peer = crowd_load(reader.agent, owner.agent);
  crowd_load(owner.agent, reader.agent);
  wrap_lost = 2;
  for (int i = 0; i < REGIONS; i++)
    assert_int_equal(weft_agent_deregister(owner.agent, regions[i]), 0);
  assert_true(support_wait(is_gone, &peer, SUPPORT_DEADLINE_MS));
  assert_int_equal(wrap_lost, 0);
}

enum { MANY = 40000, MANY_AT = 1 << 20, MANY_EACH = 4096, MANY_TIMES = 20 };

// Has the reader load the owner's metadata with every `step`-th of MANY regions, none for 0, as all that there are.
// Returns the processor time that it took.
static uint64_t load_many(uint32_t step, uint64_t change, weft_peer_t *peer) {
  struct agent_description *description;
  size_t size;
  void *blob = crowd_blob(owner.agent, &size);
  assert_int_equal(agent_blob_read(blob, size, NULL, &description), 0);
  free(blob);
  struct agent_region_description *regions = calloc(MANY, sizeof *regions);
  assert_non_null(regions);
  description->num_regions = 0;
  for (uint32_t i = 0; step > 0 && i < MANY; i += step)
    regions[description->num_regions++] = (struct agent_region_description){
        .id = i + 1, .kind = WEFT_MEMORY_HOST, .address = MANY_AT + (uint64_t)i * MANY_EACH, .length = MANY_EACH};
  description->regions = regions;
  description->all_regions = true;
  description->change = change;
  blob = describe_write(description, &size);
  struct timespec begun, ended;
  assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun), 0);
  assert_int_equal(weft_agent_load(reader.agent, blob, size, peer), 0);
  assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended), 0);
  free(blob);
  free(regions);
  free(description);
  return (uint64_t)(ended.tv_sec - begun.tv_sec) * 1000000000u + (uint64_t)ended.tv_nsec - (uint64_t)begun.tv_nsec;
}

static int find_many(weft_peer_t peer, uint32_t i, weft_dlist_t **list) {
  struct weft_descriptor descriptor = {.address = MANY_AT + (uint64_t)i * MANY_EACH, .length = MANY_EACH};
  return weft_dlist_create(reader.agent, peer, &descriptor, 1, list);
}

// They go at about the cost at which they came. One by one they took a hundred times as long, with the agent's lock
// held: its other peers, which heard nothing of it meanwhile, lost it.
static void test_many_go(void **state) {
  (void)state;
  weft_peer_t peer = 0;
  weft_dlist_t *lists[2], *none;
  uint32_t count = 0;
  uint64_t came = load_many(1, 1000, &peer);
  assert_int_equal(find_many(peer, 2, &lists[0]), 0);
  assert_int_equal(find_many(peer, 3, &lists[1]), 0); // which goes, and stays until the list is freed
  uint64_t half = load_many(2, 1001, &peer);
  assert_int_equal(weft_agent_regions(reader.agent, peer, NULL, sizeof(struct weft_region_info), 0, &count), 0);
  assert_int_equal(count, MANY / 2);
  assert_int_equal(find_many(peer, 1, &none), WEFT_ERR_NOT_FOUND);
  assert_int_equal(find_many(peer, MANY - 1, &none), WEFT_ERR_NOT_FOUND);
  assert_int_equal(find_many(peer, MANY - 2, &none), 0);
  assert_int_equal(weft_dlist_free(none), 0);
  uint64_t went = load_many(0, 1002, &peer);
  assert_int_equal(weft_agent_regions(reader.agent, peer, NULL, sizeof(struct weft_region_info), 0, &count), 0);
  assert_int_equal(count, 0);
  assert_int_equal(find_many(peer, 0, &none), WEFT_ERR_NOT_FOUND);
  for (int i = 0; i < 2; i++)
    assert_int_equal(weft_dlist_free(lists[i]), 0);
  assert_true(half < MANY_TIMES * came);
  assert_true(went < MANY_TIMES * came);
}

// Processor time of a list of MANY descriptors, one for each page of `memory`: of the regions from `first` on, or by
// address alone for 0.
static uint64_t list_many(const uint8_t *memory, weft_region_t first) {
  struct weft_descriptor *descriptors = calloc(MANY, sizeof *descriptors);
  assert_non_null(descriptors);
  for (uint32_t i = 0; i < MANY; i++)
    descriptors[i] =
        (struct weft_descriptor){(uintptr_t)memory + (uint64_t)i * MANY_EACH, MANY_EACH, first ? first + i : 0};
  weft_dlist_t *list;
  struct timespec begun, ended;
  assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun), 0);
  assert_int_equal(weft_dlist_create(owner.agent, WEFT_PEER_SELF, descriptors, MANY, &list), 0);
  assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended), 0);
  assert_int_equal(list->num_regions, MANY);
  assert_int_equal(weft_dlist_free(list), 0);
  free(descriptors);
  return (uint64_t)(ended.tv_sec - begun.tv_sec) * 1000000000u + (uint64_t)ended.tv_nsec - (uint64_t)begun.tv_nsec;
}

// Where one region holds many others, the small ones are found at about the cost of those that are named. When each
// search went through all that begin before, 40,000 took seven seconds, with the agent's lock held.
static void test_many_in_one(void **state) {
  (void)state;
  static uint8_t memory[(uint64_t)MANY * MANY_EACH];
  weft_region_t whole, region, first = 0;
  struct weft_agent_memory what = WEFT_AGENT_MEMORY_INIT;
  what.address = memory;
  what.length = sizeof memory;
  assert_int_equal(weft_agent_register(owner.agent, &what, &whole), 0);
  what.length = MANY_EACH;
  for (uint32_t i = 0; i < MANY; i++) {
    what.address = memory + (uint64_t)i * MANY_EACH;
    assert_int_equal(weft_agent_register(owner.agent, &what, &region), 0);
    first = first ? first : region;
  }
  uint64_t named = list_many(memory, first), found = list_many(memory, 0);
  assert_true(found < MANY_TIMES * named);
}

static void test_unreachable(void **state) {
  (void)state;
  size_t size;
  void *blob = describe_write(describe_fixed(), &size); // its addresses are of no transport's form
  weft_peer_t peer = 9;
  assert_int_equal(weft_agent_load(reader.agent, blob, size, &peer), WEFT_ERR_UNREACHABLE);
  assert_non_null(strstr(weft_last_error(), "decoder/7"));
  assert_true(peer == 9);
  assert_int_equal(crowd_count(&reader, LOADED, NULL), 0);
  free(blob);
}

static bool is_remembered(void *arg) {
  (void)arg;
  pthread_mutex_lock(&reader.agent->lock);
  bool is = reader.agent->peers.num_free == 1;
  pthread_mutex_unlock(&reader.agent->lock);
  return is;
}

// An application that tries an unreachable agent again and again still gets the reason why another peer has ended.
static void test_failed_loads_are_not_remembered(void **state) {
  (void)state;
  enum { TIMES = 600 }; // more than twice the peers that are remembered
  weft_peer_t gone = crowd_load(reader.agent, owner.agent), peer;
  assert_int_equal(weft_agent_invalidate(reader.agent, gone), 0);
  assert_true(support_wait(is_remembered, NULL, SUPPORT_DEADLINE_MS));
  uint32_t slots = reader.agent->peers.count;
  size_t size;
  void *blob = describe_write(describe_fixed(), &size);
  for (int i = 0; i < TIMES; i++)
    assert_int_equal(weft_agent_load(reader.agent, blob, size, &peer), WEFT_ERR_UNREACHABLE);
  free(blob);
  struct weft_peer_info info = WEFT_PEER_INFO_INIT;
  assert_int_equal(weft_agent_peer(reader.agent, gone, &info), 0);
  assert_int_equal(info.state, WEFT_PEER_LEFT);
  assert_string_equal(info.name, "owner");
  assert_true(reader.agent->peers.count <= slots + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_whole_and_part, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_no_region_is_chosen, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_part_of_nothing, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_own, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_arguments, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_damaged, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_sealed, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_gone_at_once, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_gone_stays_gone, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_gone_is_said_again, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_many_go, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_many_in_one, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_unreachable, open_both, close_both),
      cmocka_unit_test_setup_teardown(test_failed_loads_are_not_remembered, open_both, close_both),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
