// Messages and batches with one fault, from a rank on CUDA memory on another host: none of their data is written to the
// window that kernels read, the link to that rank ends with the reason, and other links go on.
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/gpu/gpu.h"
#include "ep/gpu/remote/proxy.h"
#include "ep/support/raw_peer.h"

enum {
  WORDS = 1,
  UNITS,
  LINES,
  VALUES,
  PLACES,
  CHANNELS,
  ELSEWHERE,
  UNIT = 16,
  CHANNEL = 32,
  LINE = 128,
  BATCH = 4096
};

// As cuda/relay/batch.h lays it out: its bytes follow.
struct run {
  uint32_t offset, bytes, kind, pad;
};

struct batch {
  uint32_t used;
  char bytes[BATCH];
};

static void add(struct batch *batch, uint32_t kind, uint32_t offset, uint32_t bytes, uint32_t present) {
  const struct run run = {.offset = offset, .bytes = bytes, .kind = kind};
  assert_true(batch->used + sizeof run + present <= sizeof batch->bytes);
  memcpy(batch->bytes + batch->used, &run, sizeof run);
  memset(batch->bytes + batch->used + sizeof run, 0x77, present);
  batch->used += (uint32_t)sizeof run + present;
}

// A run that is right, and behind it the one that is given: of so many bytes, of which so many are there.
static struct batch behind_right(uint32_t kind, uint32_t offset, uint32_t bytes, uint32_t present) {
  struct batch batch = {0};
  add(&batch, WORDS, 0, UNIT, UNIT);
  add(&batch, kind, offset, bytes, present);
  return batch;
}

static void send_with_batch(struct ep_remote *from, const char *bytes, size_t size, size_t place,
                            const struct batch *batch) {
  size_t at = place * EP_PROXY_BYTES;
  char *staging = (char *)ep_proxy_carrier.sent(from)->memory + at;
  memcpy(staging, batch->bytes, batch->used);
  struct transport_piece piece = {.local = from->out,
                                  .remote = from->area,
                                  .local_address = (uintptr_t)staging,
                                  .remote_address = from->area->address + at,
                                  .length = batch->used};
  raw_peer_send_message(from, bytes, size, &piece);
}

// Has the caller send the update; a batch is written to its place before.
static void send_update(struct hosts *hosts, const struct ep_proxy_update *note, size_t size,
                        const struct batch *batch) {
  struct ep_remote *from = hosts_remote(hosts);
  struct ep_link *link = from->link; // the caller loses it when the message is received
  struct ep_proxy_update own = *note;
  char bytes[sizeof own + 64] = "";
  own.link = from->peer_id;
  memcpy(bytes, &own, sizeof own);
  raw_peer_hold(hosts->caller, link, 1);
  if (batch)
    send_with_batch(from, bytes, size, note->number % EP_PROXY_BATCHES, batch);
  else
    raw_peer_send_message(from, bytes, size, NULL);
  raw_peer_hold(hosts->caller, link, -1);
}

static char *copy_of(struct hosts *hosts, const struct ep_link *link) {
  size_t size = hosts->called->gpu->area_bytes;
  char *copy = malloc(size);
  assert_non_null(copy);
  memcpy(copy, link->device.host_in, size);
  return copy;
}

static void assert_as_before(struct hosts *hosts, const struct ep_link *link, char *copy, const char *text) {
  if (memcmp(link->device.host_in, copy, hosts->called->gpu->area_bytes) != 0)
    fail_msg("something has been written of what is wrong in \"%s\"", text);
  free(copy);
}

static struct ep_proxy_update note_of(uint32_t size, uint64_t number, uint64_t delivered) {
  return (struct ep_proxy_update){.version = EP_LAYOUT_VERSION, .size = size, .number = number, .delivered = delivered};
}

// A right batch comes into its place: each wrong one below differs from it in one thing. (The caller ends the link
// when the batch is acknowledged, as it knows of none.)
static void a_right_batch_comes_into_the_window(void **state) {
  (void)state;
  struct hosts hosts;
  struct batch right = {0};
  add(&right, WORDS, 0, UNIT, UNIT);
  hosts_open_on(&hosts, WEFT_EP_MEMORY_CUDA);
  struct ep_link *link = hosts_connect_and_hold(&hosts);
  const struct ep_proxy_update note = note_of(right.used, 0, 0);
  const uint64_t *word = link->device.host_in;
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS);
  send_update(&hosts, &note, sizeof note, &right);
  while (__atomic_load_n(word + 1, __ATOMIC_ACQUIRE) != 0x7777777777777777) {
    if (clock_passed(deadline_ns))
      fail_msg("a batch that is right does not come");
    poll(NULL, 0, 1);
  }
  raw_peer_hold(hosts.called, link, -1);
  hosts_close(&hosts);
}

// Checks that a right message, without a batch or an acknowledgement, is received.
static void assert_goes_on(struct hosts *hosts, const struct ep_link *link) {
  const struct ep_proxy_update nothing = note_of(0, 0, 0);
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS),
           before = atomic_load(&link->remote->messages_received);
  send_update(hosts, &nothing, sizeof nothing, NULL);
  while (atomic_load(&link->remote->messages_received) == before) {
    if (clock_passed(deadline_ns))
      fail_msg("a message is not received");
    poll(NULL, 0, 1);
  }
  assert_true(ep_link_up(link));
}

static void expect_broken(const char *text, struct ep_proxy_update note, size_t size, const struct batch *batch) {
  struct hosts hosts;
  hosts_open_on(&hosts, WEFT_EP_MEMORY_CUDA);
  struct ep_link *link = hosts_connect_and_hold(&hosts);
  char *before = copy_of(&hosts, link);
  send_update(&hosts, &note, size, batch);
  raw_peer_await_broken(link, text);
  assert_as_before(&hosts, link, before, text);
  raw_peer_hold(hosts.called, link, -1);
  hosts_close(&hosts);
}

static void a_message_that_is_wrong_ends_its_link(void **state) {
  (void)state;
  struct batch right = {0};
  add(&right, WORDS, 0, UNIT, UNIT);
  const size_t whole = sizeof(struct ep_proxy_update);
  const struct ep_proxy_update good = note_of(right.used, 0, 0);
  static const size_t sizes[] = {8, 12, sizeof(struct ep_proxy_update) - 1, sizeof(struct ep_proxy_update) + 1, 96};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    expect_broken("bytes, not", good, sizes[i], &right);
  struct ep_proxy_update other = good;
  other.version++;
  expect_broken("of version", other, whole, &right);
  expect_broken("a batch of 262145 bytes", note_of(EP_PROXY_BYTES + 1, 0, 0), whole, &right);
  expect_broken("a batch of 4294967295 bytes", note_of(UINT32_MAX, 0, 0), whole, &right);
  expect_broken("it sent batch 8 out of order", note_of(right.used, EP_PROXY_BATCHES, 0), whole, &right);
  expect_broken("it sent batch 18446744073709551615 out of order", note_of(right.used, UINT64_MAX, 0), whole, &right);
  expect_broken("acknowledged 1 batches, but only 0 were sent", note_of(right.used, 0, 1), whole, &right);
  expect_broken("acknowledged 1 batches, but only 0 were sent", note_of(0, 0, 1), whole, NULL);
  expect_broken("acknowledged 18446744073709551615", note_of(0, 0, UINT64_MAX), whole, NULL);
}

// It waits for the one before it, so that nobody reads it meanwhile.
static void a_batch_that_comes_twice_ends_its_link(void **state) {
  (void)state;
  struct batch right = {0};
  add(&right, WORDS, 0, UNIT, UNIT);
  struct hosts hosts;
  hosts_open_on(&hosts, WEFT_EP_MEMORY_CUDA);
  struct ep_link *link = hosts_connect_and_hold(&hosts);
  const struct ep_proxy_update note = note_of(right.used, 1, 0);
  send_update(&hosts, &note, sizeof note, &right);
  send_update(&hosts, &note, sizeof note, &right);
  raw_peer_await_broken(link, "it sent batch 1 out of order: 0 were");
  raw_peer_hold(hosts.called, link, -1);
  hosts_close(&hosts);
}

static void a_batch_that_is_wrong_in_one_run_writes_none(void **state) {
  (void)state;
  static const char misplaced[] = "lies outside this area";
  struct hosts hosts;
  hosts_open_on(&hosts, WEFT_EP_MEMORY_CUDA);
  uint32_t area = (uint32_t)hosts.called->gpu->area_bytes;
  hosts_close(&hosts);
  const struct {
    const char *text;
    struct batch batch;
  } all[] = {
      {misplaced, behind_right(0, 0, UNIT, UNIT)},
      {misplaced, behind_right(ELSEWHERE + 1, 0, UNIT, UNIT)},
      {misplaced, behind_right(ELSEWHERE, 0, 2 * UNIT, 2 * UNIT)},
      {getenv("WEFT_TEST_THROUGHPUT") ? "a window that is not known here" : misplaced,
       behind_right(ELSEWHERE, 0, UNIT, UNIT)},
      {misplaced, behind_right(UINT32_MAX, 0, UNIT, UNIT)},
      {misplaced, behind_right(UNITS, 0, 0, 0)},
      {misplaced, behind_right(UNITS, 8, UNIT, UNIT)},
      {misplaced, behind_right(UNITS, 0, UNIT + 8, UNIT + 8)},
      {misplaced, behind_right(VALUES, 8, UNIT, UNIT)},
      {misplaced, behind_right(VALUES, 0, UNIT + 8, UNIT + 8)},
      {misplaced, behind_right(LINES, UNIT, LINE, LINE)},
      {misplaced, behind_right(LINES, 0, UNIT, UNIT)},
      {misplaced, behind_right(PLACES, 0, UNIT, UNIT)}, // no stream is there
      {misplaced, behind_right(PLACES, area, UNIT, UNIT)},
      {misplaced, behind_right(CHANNELS, 0, CHANNEL, CHANNEL)},
      {misplaced, behind_right(UNITS, area, UNIT, UNIT)},
      {misplaced, behind_right(VALUES, area, UNIT, UNIT)},
      {misplaced, behind_right(LINES, area - LINE, 2 * LINE, 2 * LINE)},
      {misplaced, behind_right(UNITS, UINT32_MAX - 15, UNIT, UNIT)},
      {misplaced, behind_right(UNITS, 0, 2 * UNIT, UNIT)},
      {misplaced, behind_right(UNITS, 0, UINT32_MAX - 15, UNIT)},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const struct batch *batch = &all[i].batch;
    expect_broken(all[i].text, note_of(batch->used, 0, 0), sizeof(struct ep_proxy_update), batch);
  }
  struct batch cut = behind_right(UNITS, 0, UNIT, UNIT);
  cut.used -= UNIT + 4;
  expect_broken("ends within a run", note_of(cut.used, 0, 0), sizeof(struct ep_proxy_update), &cut);
}

static void others_go_on(void **state) {
  (void)state;
  static const int32_t called = 0;
  struct hosts hosts;
  hosts_open_on(&hosts, WEFT_EP_MEMORY_CUDA);
  weft_ep_t *other = hosts_rank(&hosts, 2, "three");
  assert_int_equal(weft_ep_connect(other, &called, 1, RAW_PEER_DEADLINE_MS), 0);
  struct ep_link *link = hosts_connect_and_hold(&hosts), *to_other = ep_link_find(hosts.called, 2, 0);
  assert_non_null(to_other);
  raw_peer_hold(hosts.called, to_other, 1);
  const struct ep_proxy_update wrong = note_of(0, 0, 1);
  send_update(&hosts, &wrong, sizeof wrong, NULL);
  raw_peer_await_broken(link, "acknowledged 1 ");
  raw_peer_hold(hosts.called, link, -1);
  struct hosts there = {.called = hosts.called, .caller = other};
  assert_goes_on(&there, to_other);
  raw_peer_hold(hosts.called, to_other, -1);
  weft_ep_close(hosts.caller);
  weft_ep_close(other);
  weft_ep_close(hosts.called);
  weft_store_close(hosts.store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_right_batch_comes_into_the_window),
      cmocka_unit_test(a_message_that_is_wrong_ends_its_link),
      cmocka_unit_test(a_batch_that_comes_twice_ends_its_link),
      cmocka_unit_test(a_batch_that_is_wrong_in_one_run_writes_none),
      cmocka_unit_test(others_go_on),
  };
  return cmocka_run_group_tests_name("ep_gpu_bad_messages", tests, NULL, NULL);
}
