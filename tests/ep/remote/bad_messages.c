// Messages with one fault from a peer on another host: nothing of them is written, the link to that peer ends with the
// reason, and other links go on. Messages that belong to no link are dropped.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time/clock.h"
#include "cmocka_all.h"
#include "ep/support/rank.h"
#include "ep/support/raw_peer.h"

// Sends a right message, by which the peer reports that it waits. When it is received, so are all messages before it.
static void assert_received(struct ep_remote *from, struct ep_link *link) {
  struct ep_update update = {.link = from->peer_id, .version = EP_LAYOUT_VERSION, .count = 1};
  update.words[0].place = EP_PLACE_SIGN;
  uint64_t deadline_ns = clock_deadline_ms(RAW_PEER_DEADLINE_MS),
           before = atomic_load(&link->remote->messages_received);
  raw_peer_send_message(from, &update, offsetof(struct ep_update, words) + sizeof *update.words, NULL);
  while (atomic_load(&link->remote->messages_received) == before) {
    if (clock_passed(deadline_ns))
      fail_msg("a message is not received");
    poll(NULL, 0, 1);
  }
  assert_true(ep_link_up(link));
}

static uint64_t *copy_of(const struct ep_window *window) {
  uint64_t *copy = malloc(window->size), *from = window->memory;
  assert_non_null(copy);
  for (size_t i = 0; i < window->size / sizeof *copy; i++)
    copy[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
  return copy;
}

// Ignores the words that ranks write when a link ends.
static bool is_as_before(const struct ep_window *window, const uint64_t *copy) {
  const size_t notice = offsetof(struct ep_area_head, notice) / sizeof *copy;
  uint64_t *now = copy_of(window);
  now[notice] = copy[notice];
  bool same = memcmp(now, copy, window->size) == 0;
  free(now);
  return same;
}

// --- to a rank on host memory ---

struct wrong {
  const char *text; // that the reason has
  struct ep_update update;
  size_t size;  // of the message; 0: as the count says
  bool dropped; // it is of no link
};

// Two words: one that is right, and `word`.
static struct wrong word(const char *text, uint32_t place, size_t offset) {
  struct wrong wrong = {.text = text, .update.version = EP_LAYOUT_VERSION, .update.count = 2};
  wrong.update.words[0] =
      (struct ep_word){EP_PLACE_AREA, sizeof(struct ep_area_head) + offsetof(struct ep_slot_head, dispatch.flag), 7};
  wrong.update.words[1] = (struct ep_word){place, (uint32_t)offset, 0x7777777777777777};
  return wrong;
}

static struct wrong count(const char *text, uint32_t words, size_t size) {
  struct wrong wrong = word(text, EP_PLACE_SIGN, 0);
  wrong.update.count = words;
  wrong.size = size;
  return wrong;
}

static void send_wrong(struct ep_remote *from, const struct wrong *wrong) {
  char bytes[sizeof(struct ep_update) + 64] = "";
  struct ep_update update = wrong->update;
  update.link = wrong->dropped ? wrong->update.link : from->peer_id;
  memcpy(bytes, &update, sizeof update);
  raw_peer_send_message(
      from, bytes, wrong->size ? wrong->size : offsetof(struct ep_update, words) + update.count * sizeof *update.words,
      NULL);
}

static void expect_nothing_written(const struct wrong *wrong) {
  struct hosts hosts;
  hosts_open(&hosts);
  struct ep_link *link = hosts_connect(&hosts);
  uint64_t *area = copy_of(&link->in), *shadow = copy_of(&link->out);
  send_wrong(hosts_remote(&hosts), wrong);
  if (wrong->dropped)
    assert_received(hosts_remote(&hosts), link);
  else
    raw_peer_await_broken(link, wrong->text);
  if (!is_as_before(&link->in, area) || !is_as_before(&link->out, shadow))
    fail_msg("something has been written of a message that is wrong in \"%s\"", wrong->text);
  free(area);
  free(shadow);
  hosts_close(&hosts);
}

static void what_is_wrong_in_a_message_keeps_all_of_it_out(void **state) {
  (void)state;
  struct ep_layout layout;
  ep_layout_init(&layout, 4, 128, 2, WEFT_EP_BF16, WEFT_EP_COMBINE_BF16);
  const size_t head = offsetof(struct ep_update, words), one = sizeof(struct ep_word),
               slot = sizeof(struct ep_area_head);
  char too_long[32], too_many[32];
  snprintf(too_long, sizeof too_long, "of %zu bytes", sizeof(struct ep_update) + 64);
  snprintf(too_many, sizeof too_many, "%d words", EP_WORDS + 1);
  struct wrong all[] = {
      count("of version", 2, 0),
      count("3 words", 3, head + 2 * one),
      count("1 words", 1, head + 2 * one),
      count(too_many, EP_WORDS + 1, head + EP_WORDS * one),
      count("4294967295 words", UINT32_MAX, head + 2 * one),
      count("268435458 words", (1u << 28) + 2, head + 2 * one), // whose bytes are those of 2, in 32 bits
      count("2 words", 2, head + 2 * one + 5),
      count("of 8 bytes", 2, 8),
      count("of 15 bytes", 2, 15),
      count(too_long, 2, sizeof(struct ep_update) + 64),
      word("offset 4294967288", EP_PLACE_AREA, UINT32_MAX - 7),
      word("offset 4294967288", EP_PLACE_SHADOW, UINT32_MAX - 7),
      word("must not write", EP_PLACE_AREA, layout.area),
      word("must not write", EP_PLACE_AREA, slot + layout.slot * EP_DEPTH),
      word("must not write", EP_PLACE_AREA, slot + layout.rows),
      word("must not write", EP_PLACE_AREA, slot + layout.heads),
      word("must not write", EP_PLACE_AREA, slot + offsetof(struct ep_slot_head, taken.dispatch)),
      word("must not write", EP_PLACE_AREA, slot + offsetof(struct ep_slot_head, taken.combine)),
      word("must not write", EP_PLACE_AREA, slot + offsetof(struct ep_slot_head, dispatch.flag) + 4),
      word("must not write", EP_PLACE_AREA, slot + offsetof(struct ep_slot_head, dispatch.active) + 1),
      word("must not write", EP_PLACE_AREA, slot + offsetof(struct ep_slot_head, dispatch.route_rows) + 4),
      word("must not write", EP_PLACE_AREA, slot + offsetof(struct ep_slot_head, weights.flag) + 8),
      word("must not write", EP_PLACE_AREA, offsetof(struct ep_area_head, notice.left)),
      word("must not write", EP_PLACE_AREA, offsetof(struct ep_area_head, start.epoch) + 8),
      word("must not write", EP_PLACE_SHADOW, 0),
      word("must not write", EP_PLACE_SHADOW, slot + offsetof(struct ep_slot_head, dispatch.flag)),
      word("must not write", EP_PLACE_SHADOW, slot + offsetof(struct ep_slot_head, taken.dispatch) + 4),
      word("place 3,", 3, 0),
      word("place 4294967295,", UINT32_MAX, 0),
  };
  all[0].update.version++;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    expect_nothing_written(&all[i]);
}

static void what_is_of_no_link_is_dropped(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) {
    static const uint64_t links[] = {0, UINT64_MAX, 1, 65535, 7 << 16};
    struct wrong wrong = word("nobody", EP_PLACE_AREA, 0);
    wrong.update.link = links[i];
    wrong.dropped = true;
    expect_nothing_written(&wrong);
  }
  struct wrong shorter = count("nobody", 1, 1);
  shorter.dropped = true;
  expect_nothing_written(&shorter);
}

// A malformed message on the control socket ends the link.
static void rubbish_on_the_socket_ends_the_link(void **state) {
  (void)state;
  struct hosts hosts;
  hosts_open(&hosts);
  struct ep_link *link = hosts_connect(&hosts);
  static const char rubbish[] = "GET / HTTP/1.1\r\n\r\n";
  assert_true(send(ep_link_find(hosts.caller, 0, 0)->socket, rubbish, sizeof rubbish, MSG_NOSIGNAL) > 0);
  raw_peer_await_broken(link, "");
  hosts_close(&hosts);
}

static void others_and_the_next_go_on(void **state) {
  (void)state;
  static const int32_t called = 0;
  struct hosts hosts;
  hosts_open(&hosts);
  weft_ep_t *other = hosts_rank(&hosts, 2, "three");
  assert_int_equal(weft_ep_connect(other, &called, 1, RAW_PEER_DEADLINE_MS), 0);
  struct ep_link *link = hosts_connect(&hosts), *to_other = ep_link_find(hosts.called, 2, 0);
  assert_non_null(to_other);
  struct wrong wrong = word("place 3,", 3, 0);
  send_wrong(hosts_remote(&hosts), &wrong);
  raw_peer_await_broken(link, "place 3,");
  assert_received(ep_link_find(other, 0, 0)->remote, to_other);
  // The next life of that rank, which keeps to the rules.
  weft_ep_close(hosts.caller);
  hosts.caller = hosts_rank(&hosts, 1, "two");
  link = hosts_connect(&hosts);
  assert_received(hosts_remote(&hosts), link);
  assert_received(ep_link_find(other, 0, 0)->remote, to_other);
  weft_ep_close(other);
  hosts_close(&hosts);
}

// --- in operations ---

enum { RIGHT = 20, AFTER = 20 };

// Rank 1 runs some operations, then sends rank 0 what is wrong, and goes on; the others go on without it.
static void run_beside_one_that_is_wrong(struct rank *rank, void *arg) {
  (void)arg;
  static const int32_t left[] = {0, 2};
  if (!rank_operate_n(rank, RIGHT))
    return;
  if (rank->index != 1) {
    if (rank_operate_until(rank, left, 2))
      rank_operate_n(rank, AFTER);
    return;
  }
  struct ep_link *link = ep_link_find(rank->ep, 0, 0);
  struct wrong wrong = word("place 3,", 3, 0);
  send_wrong(link->remote, &wrong);
  while (rank_operate(rank)) // until it finds itself put out
    ;
  if (strstr(rank->error, "FENCED"))
    rank->error[0] = '\0';
}

static void operations_go_on_without_one_that_is_wrong(void **state) {
  (void)state;
  static const int32_t all[] = {0, 1, 2};
  struct setup setup = {0};
  assert_int_equal(weft_store_open_local(&setup.store), 0);
  ranks_run(&setup, all, 3, run_beside_one_that_is_wrong, NULL);
  weft_store_close(setup.store);
}

// --- in another order than they were sent ---

static struct ep_update start_note(uint64_t op, uint64_t epoch) {
  return (struct ep_update){.version = EP_LAYOUT_VERSION,
                            .count = 2,
                            .words = {{EP_PLACE_AREA, offsetof(struct ep_area_head, start.epoch), epoch},
                                      {EP_PLACE_AREA, offsetof(struct ep_area_head, start.op_plus_1), op + 1}}};
}

static void of_two_starts_the_earlier_stands_in_either_order(void **state) {
  (void)state;
  struct ep_layout layout;
  ep_layout_init(&layout, 4, 128, 2, WEFT_EP_BF16, WEFT_EP_COMBINE_BF16);
  const struct ep_update notes[] = {start_note(10, 5), start_note(9, 6)};
  struct ep_area_head *area = aligned_alloc(EP_PAGE, layout.area);
  assert_non_null(area);
  for (int first = 0; first < 2; first++) {
    memset(area, 0, layout.area);
    for (int i = 0; i < 3; i++) // the first of them comes a second time
      ep_update_store(&notes[(first + i) % 2], &layout, area, area);
    assert_int_equal(atomic_load(&area->start.op_plus_1), 9 + 1);
    assert_int_equal(atomic_load(&area->start.epoch), 6);
  }
  free(area);
}

// Of a rank that awaits its own first operation the newest view counts, and any operation counts more.
static void a_start_stands_in_the_place_of_one_that_is_awaited(void **state) {
  (void)state;
  struct ep_layout layout;
  ep_layout_init(&layout, 4, 128, 2, WEFT_EP_BF16, WEFT_EP_COMBINE_BF16);
  const struct ep_update notes[] = {start_note(EP_START_AWAITED - 1, 3), start_note(EP_START_AWAITED - 1, 5),
                                    start_note(EP_START_RUNS - 1, 6), start_note(9, 7)};
  struct ep_area_head *area = aligned_alloc(EP_PAGE, layout.area);
  assert_non_null(area);
  memset(area, 0, layout.area);
  for (int last = 0; last < 4; last++) {
    ep_update_store(&notes[last], &layout, area, area);
    if (last > 0)
      ep_update_store(&notes[last - 1], &layout, area, area); // late
    assert_true(atomic_load(&area->start.op_plus_1) == notes[last].words[1].value);
    assert_true(atomic_load(&area->start.epoch) == notes[last].words[0].value);
  }
  free(area);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_wrong_in_a_message_keeps_all_of_it_out),
      cmocka_unit_test(what_is_of_no_link_is_dropped),
      cmocka_unit_test(of_two_starts_the_earlier_stands_in_either_order),
      cmocka_unit_test(a_start_stands_in_the_place_of_one_that_is_awaited),
      cmocka_unit_test(rubbish_on_the_socket_ends_the_link),
      cmocka_unit_test(others_and_the_next_go_on),
      cmocka_unit_test(operations_go_on_without_one_that_is_wrong),
  };
  return cmocka_run_group_tests_name("ep_bad_messages", tests, NULL, NULL);
}
