// Ranks of one host share the windows that ranks of another host write, on CUDA memory without a GPU: even ranks are on
// one host, odd ranks on the other. The test checks what sources are notified of, what readers have mapped, and which
// ranks share.
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "ep/gpu/remote/sharers.h"
#include "ep/gpu/support/fake_ranks.h"
#include "ep/remote/neighbours.h"

enum { RANKS = 6, ROUNDS = 3, OPERATIONS = 5, HIDDEN = 1024 };

static _Atomic bool cannot_map;
static _Atomic uint32_t asked_to_map;
static _Atomic size_t asked_bytes;

int __real_ep_window_map_read(struct ep_window *window, size_t size, int fd);
int __wrap_ep_window_map_read(struct ep_window *window, size_t size, int fd);

int __wrap_ep_window_map_read(struct ep_window *window, size_t size, int fd) {
  asked_bytes = size;
  asked_to_map++;
  return cannot_map ? WEFT_ERR_NOMEM : __real_ep_window_map_read(window, size, fd);
}

// --- what is seen ---

static struct ep_link *link_to(weft_ep_t *ep, int32_t rank) {
  return atomic_load(&ep->links.by_rank[rank]);
}

// Ranks that share what `ep` sends to them, as bits; 0: no such group. `among`: of the group of that rank.
static uint32_t shared_by(weft_ep_t *ep, int32_t among) {
  struct ep_net *net = atomic_load(&ep->net);
  uint32_t ranks = 0;
  if (!net)
    return 0;
  ep_net_lock(net);
  const struct ep_sharer_groups *found = ep_sharers_find(net);
  for (uint32_t i = 0; i < found->count; i++) {
    uint32_t members = 0;
    assert_uint_in_range(found->groups[i].count, 2, RANKS);
    for (uint32_t j = 0; j < found->groups[i].count; j++) {
      const struct ep_remote *remote = ep_remote_find(net, found->groups[i].links[j]);
      assert_true(!remote || ep_sharers_of(remote) == &found->groups[i]);
      members |= remote ? 1u << remote->link->rank : 0;
    }
    if (members >> among & 1)
      ranks = members;
  }
  ep_net_unlock(net);
  return ranks;
}

static uint32_t areas(weft_ep_t *ep) {
  uint32_t count = 0;
  pthread_mutex_lock(&ep->links.lock);
  for (const struct ep_neighbour_area *area = atomic_load(&ep->links.areas); area; area = area->next)
    count++;
  pthread_mutex_unlock(&ep->links.lock);
  return count;
}

static void await_shared(weft_ep_t *ep, int32_t among, uint32_t ranks) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (shared_by(ep, among) != ranks) {
    if (clock_passed(deadline_ns))
      fail_msg("rank %d takes the ranks %x for those that share with rank %d, not %x", ep->rank, shared_by(ep, among),
               among, ranks);
    poll(NULL, 0, 1);
  }
}

static void await_areas(weft_ep_t *ep, uint32_t count) {
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  while (areas(ep) != count) {
    if (clock_passed(deadline_ns))
      fail_msg("rank %d maps %u windows of neighbours, not %u", ep->rank, areas(ep), count);
    poll(NULL, 0, 1);
  }
}

// Waits until each of the first `count` ranks knows which ranks of the other host share, and has mapped its windows.
static void await_all(weft_ep_t **eps, uint32_t count) {
  uint32_t hosts[2] = {0, 0};
  for (uint32_t i = 0; i < count; i++)
    hosts[i % 2] |= 1u << i;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t theirs = hosts[(i + 1) % 2], ours = (uint32_t)__builtin_popcount(hosts[i % 2]);
    bool several = __builtin_popcount(theirs) > 1;
    await_shared(eps[i], (i + 1) % 2, several ? theirs : 0);
    await_areas(eps[i], (ours - 1) * (uint32_t)__builtin_popcount(theirs));
  }
}

static void operate(weft_ep_t **eps, uint32_t count) {
  for (int i = 0; i < OPERATIONS; i++) {
    struct weft_ep_info info = WEFT_EP_INFO_INIT;
    fake_operate(eps, count, &info);
    assert_int_equal(info.num_lost, 0);
  }
}

static void close_all(weft_ep_t **eps, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    weft_ep_close(eps[i]);
}

// Until no view needs the last of `count`, which has closed.
static void leave(weft_ep_t **eps, uint32_t count) {
  const int32_t self = (int32_t)count - 1;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  assert_ok(weft_ep_disconnect(eps[self], &self, 1, DEADLINE_MS));
  while (weft_ep_is_active(eps[self]))
    fake_operate(eps, count, NULL);
  weft_ep_close(eps[self]);
  for (uint32_t i = 0; i < count - 1; i++)
    while (link_to(eps[i], self) && !clock_passed(deadline_ns))
      fake_operate(eps, count - 1, NULL);
}

// --- tests ---

// The memory of the carrier's window is what its neighbour has mapped, all of it, and the neighbour cannot write it.
static void assert_reads(weft_ep_t *reader, weft_ep_t *carrier, int32_t source) {
  const struct ep_link *link = link_to(carrier, source);
  size_t size = carrier->gpu->area_bytes;
  char *memory = link->device.host_in, before = memory[size - 1];
  const char *seen = ep_neighbours_area(reader, link_to(reader, source), ep_area_number(link->remote->id));
  assert_non_null(seen);
  assert_ptr_not_equal(seen, memory);
  memory[size - 1] = (char)(before + 7);
  assert_int_equal(seen[size - 1], (char)(before + 7));
  memory[size - 1] = before;
  assert_int_equal(mprotect((void *)(uintptr_t)seen, 4096, PROT_READ | PROT_WRITE), -1);
  assert_null(ep_neighbours_area(reader, link_to(reader, source), ep_area_number(link->remote->id) + 1));
}

// Whoever makes windows sees that rank 0 has the one of rank 2 mapped, until it does not.
static void assert_handed_on_when_unread(weft_ep_t **eps) {
  int shown = link_to(eps[2], 1)->device.shown;
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  assert_int_equal(flock(shown, LOCK_EX | LOCK_NB), -1);
  weft_ep_close(eps[0]);
  while (flock(shown, LOCK_EX | LOCK_NB) != 0 && !clock_passed(deadline_ns))
    poll(NULL, 0, 1);
  assert_int_equal(flock(shown, LOCK_EX | LOCK_NB), 0);
}

static void sources_know_who_shares(void **state) {
  (void)state;
  weft_ep_t *eps[4];
  fake_found(eps, 4);
  await_all(eps, 4);
  for (int32_t source = 0; source < 4; source++) {
    int32_t a = (source + 1) % 4, b = (source + 3) % 4;
    assert_reads(eps[a], eps[b], source);
    assert_reads(eps[b], eps[a], source);
  }
  struct ep_net *net = atomic_load(&eps[0]->net);
  ep_net_lock(net);
  uint64_t version = ep_sharers_find(net)->version;
  assert_true(version > 0);
  assert_int_equal(ep_sharers_find(net)->version, version);
  ep_net_unlock(net);
  assert_int_equal(asked_bytes, eps[0]->gpu->area_bytes);
  operate(eps, 4);
  assert_handed_on_when_unread(eps);
  close_all(eps + 1, 3);
}

// Each of them closes the window that it carried in, which another link may get then.
static void ranks_that_join_share_and_those_that_leave_do_not(void **state) {
  (void)state;
  weft_ep_t *eps[RANKS];
  fake_found(eps, 3);
  await_all(eps, 3);
  for (int round = 0; round < ROUNDS; round++) {
    fake_join(eps, 4, fake_options(3, NULL, 0));
    await_all(eps, 4);
    operate(eps, 4);
    leave(eps, 4);
    await_all(eps, 3);
    operate(eps, 3);
  }
  for (uint32_t count = 4; count <= RANKS; count++) {
    fake_join(eps, count, fake_options((int32_t)count - 1, NULL, 0));
    await_all(eps, count);
  }
  for (uint32_t count = RANKS; count > 3; count--) {
    leave(eps, count);
    await_all(eps, count - 1);
  }
  operate(eps, 3);
  close_all(eps, 3);
}

// Rank 3 has a device whose memory cannot be shown.
static void a_rank_that_shows_no_memory_shares_no_rows(void **state) {
  (void)state;
  static const int32_t founders[] = {0, 1, 2, 3};
  struct fake_activation activations[4];
  weft_ep_t *eps[4];
  setenv("FAKE_PRIVATE", "1", 1);
  for (int32_t i = 0; i < 4; i++) {
    struct weft_ep_options options = fake_options(i, founders, 4);
    options.device = i == 3;
    eps[i] = fake_open(options);
  }
  for (uint32_t i = 0; i < 4; i++)
    fake_begin(&activations[i], eps[i]);
  for (uint32_t i = 0; i < 4; i++)
    fake_end(&activations[i]);
  unsetenv("FAKE_PRIVATE");
  await_areas(eps[3], 2); // it reads
  await_shared(eps[1], 0, 1 << 0 | 1 << 2);
  for (int32_t source = 0; source <= 2; source += 2) {
    uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
    assert_int_equal(link_to(eps[3], source)->device.shown, -1);
    while (!ep_neighbours_reads(link_to(eps[source], 3), link_to(eps[source], 1)) && !clock_passed(deadline_ns))
      poll(NULL, 0, 1);
    assert_true(ep_neighbours_reads(link_to(eps[source], 3), link_to(eps[source], 1)));
    assert_false(ep_neighbours_reads(link_to(eps[source], 1), link_to(eps[source], 3)));
    assert_int_equal(shared_by(eps[source], 1), 0);
    assert_int_equal(shared_by(eps[source], 3), 0);
  }
  operate(eps, 4);
  close_all(eps, 4);
}

static void ranks_that_cannot_map_share_no_rows(void **state) {
  (void)state;
  weft_ep_t *eps[4];
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS);
  asked_to_map = 0;
  cannot_map = true;
  fake_found(eps, 4);
  while (asked_to_map < 8 && !clock_passed(deadline_ns)) // each rank, of one neighbour, what two sources write
    poll(NULL, 0, 1);
  assert_true(asked_to_map >= 8);
  operate(eps, 4);
  for (int32_t i = 0; i < 4; i++) {
    assert_int_equal(areas(eps[i]), 0);
    assert_int_equal(shared_by(eps[i], (i + 1) % 4), 0);
  }
  close_all(eps, 4);
  cannot_map = false;
}

static void ranks_share_no_rows_if_the_environment_forbids_it(void **state) {
  (void)state;
  weft_ep_t *eps[4];
  setenv("WEFT_EP_ONCE", "sometimes", 1);
  struct weft_ep_options options = fake_options(0, NULL, 0);
  assert_int_equal(weft_ep_open(&eps[0], &options, DEADLINE_MS), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "want yes or no"));
  setenv("WEFT_EP_ONCE", "no", 1);
  asked_to_map = 0;
  fake_found(eps, 4);
  operate(eps, 4);
  setenv("WEFT_EP_ONCE", "yes", 1);
  for (int32_t i = 0; i < 4; i++)
    assert_int_equal(shared_by(eps[i], (i + 1) % 4), 0);
  assert_int_equal(asked_to_map, 0);
  close_all(eps, 4);
}

// The plug-in of the tests has the same rows for all ranks, and ends the process when one is wrong. Sooner or later
// some of them are found in the windows of neighbours: not all, since a carrier that has no processor is not waited
// for.
static void rows_cross_once(void **state) {
  (void)state;
  weft_ep_t *eps[4];
  uint64_t deadline_ns = clock_deadline_ms(DEADLINE_MS), named[4] = {0};
  fake_found(eps, 4);
  await_all(eps, 4);
  while (!(named[0] && named[1] && named[2] && named[3])) {
    operate(eps, 4);
    for (int i = 0; i < 4; i++) {
      struct ep_net *net = atomic_load(&eps[i]->net);
      ep_net_lock(net);
      named[i] = eps[i]->gpu->shared.named_bytes;
      ep_net_unlock(net);
      assert_int_equal(named[i] % (2 * HIDDEN), 0);
    }
    if (clock_passed(deadline_ns))
      fail_msg("not every source has named rows");
  }
  close_all(eps, 4);
}

// Nothing is offered there, and an offer would be no message.
static void groups_for_low_latency_show_nothing(void **state) {
  (void)state;
  weft_ep_t *eps[4];
  unsetenv("WEFT_TEST_THROUGHPUT");
  asked_to_map = 0;
  fake_found(eps, 4);
  setenv("WEFT_TEST_THROUGHPUT", "1", 1);
  operate(eps, 4);
  for (int32_t i = 0; i < 4; i++) {
    assert_int_equal(ep_sharers_shown_bytes(eps[i]), 0);
    assert_int_equal(link_to(eps[i], (i + 1) % 4)->device.shown, -1);
    assert_int_equal(shared_by(eps[i], (i + 1) % 4), 0);
  }
  assert_int_equal(asked_to_map, 0);
  close_all(eps, 4);
}

int main(void) {
  setenv("WEFT_TEST_HOSTS", "2", 1);
  setenv("WEFT_TEST_THROUGHPUT", "1", 1);
  setenv("WEFT_TEST_HIDDEN", "1024", 1);
  setenv("WEFT_EP_TRANSPORT", "shm", 1);
  setenv("WEFT_ADDRESS", "127.0.0.1", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open_store, fake_close_store)
  const struct CMUnitTest tests[] = {
      TEST(sources_know_who_shares),
      TEST(ranks_that_join_share_and_those_that_leave_do_not),
      TEST(a_rank_that_shows_no_memory_shares_no_rows),
      TEST(ranks_that_cannot_map_share_no_rows),
      TEST(ranks_share_no_rows_if_the_environment_forbids_it),
      TEST(rows_cross_once),
      TEST(groups_for_low_latency_show_nothing),
  };
  return cmocka_run_group_tests_name("ep_fake_neighbours", tests, NULL, NULL);
}
