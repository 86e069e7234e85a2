// Membership on real GPUs (weft/ep.h) beside a graph that replays: ranks that offer themselves are admitted together or
// not at all, joiners go on without the ranks that ran before them, and a wait for the device can be interrupted.
#include "cuda/support/api.cuh"
#include "cuda/support/cases.cuh"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace {

enum { SHORT_MS = 300, FEW = 10 };

// --- one rank runs by a graph, and takes two in ---

std::atomic<uint64_t> first_of_three[RANKS];

const struct weft_ep_change_args &both(void) {
  static const int32_t joiners[] = {1, 2};
  static struct weft_ep_change_args change = WEFT_EP_CHANGE_ARGS_INIT;
  change.add = joiners;
  change.num_add = 2;
  return change;
}

void judge_alone(rank &r, uint64_t key) {
  const std::vector<int32_t> &one = first_ranks(1);
  judge(r, {key, one, one, -1, {}, {}});
}

// Rank 2 has not offered itself: the view stays.
void grow_too_early(rank &r, cudaGraphExec_t exec) {
  uint32_t count;
  int rc = weft_ep_change(r.ep, &both(), SHORT_MS);
  if (rc != WEFT_ERR_TIMEOUT || !strstr(weft_last_error(), "missing: 2"))
    r.die("a change with a rank that has not offered itself returns %s: %s", weft_err_name(rc), weft_last_error());
  r.must(weft_ep_committed_view(r.ep, nullptr, nullptr, 0, &count), "weft_ep_committed_view");
  for (int i = 0; i < FEW; i++)
    r.replay(exec);
  if (count != 1 || r.info.num_ranks != 1)
    r.die("after a change that failed the view has %u ranks, and the operation %u", count, r.info.num_ranks);
  judge_alone(r, 150);
}

// `step`: operations of a step; views take effect only with the first one.
void check_step(const rank &r, uint32_t step) {
  if (r.op % step != 0)
    r.die("a view took effect with operation %llu, within a step of %u", (unsigned long long)r.op, step);
}

void growing(rank &r, uint32_t step) {
  const int32_t joiners[] = {1, 2};
  struct weft_ep_change_args shrink = WEFT_EP_CHANGE_ARGS_INIT;
  r.open(1, TIMEOUT_MS, step);
  r.must(weft_ep_activate(r.ep, DEADLINE_MS), "weft_ep_activate");
  r.fill(150, first_ranks(1));
  cudaGraphExec_t exec = r.capture();
  for (int i = 0; i < FEW; i++)
    r.replay(exec);
  r.world->meet(r, "the capture");
  r.world->meet(r, "the first offer");
  grow_too_early(r, exec);
  r.world->meet(r, "the change that failed");
  r.fill(151, first_ranks(RANKS));
  r.world->meet(r, "the second offer");
  r.must(weft_ep_change(r.ep, &both(), DEADLINE_MS), "weft_ep_change");
  r.replay_until(exec, RANKS);
  first_of_three[0] = r.op;
  check_step(r, step);
  for (int i = 0; i < FEW; i++)
    r.replay(exec);
  judge(r, all_there(151));
  shrink.remove = joiners;
  shrink.num_remove = 2;
  r.must(weft_ep_change(r.ep, &shrink, DEADLINE_MS), "weft_ep_change, back");
  r.replay_until(exec, 1);
  check_step(r, step);
  r.fill(152, first_ranks(1));
  r.replay(exec);
  judge_alone(r, 152);
  r.world->meet(r, "the last operation");
  for (int32_t joiner : joiners)
    if (first_of_three[joiner] != first_of_three[0])
      r.die("the view of three began with operation %llu, and for rank %d with %llu",
            (unsigned long long)first_of_three[0], joiner, (unsigned long long)first_of_three[joiner]);
  r.cuda(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
  r.leave();
}

void offer(rank &r) {
  r.must(weft_ep_offer(r.ep, DEADLINE_MS), "weft_ep_offer");
}

// Until it has been put out.
void operate_to_the_end(rank &r) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(DEADLINE_MS);
  while (weft_ep_is_active(r.ep)) {
    if (std::chrono::steady_clock::now() > deadline)
      r.die("it has not left within %d ms", DEADLINE_MS);
    r.pair();
    r.check_whole();
  }
}

void offering(rank &r, uint32_t step) {
  uint64_t first;
  r.world->meet(r, "the capture");
  r.open(1, TIMEOUT_MS, step);
  r.fill(151, first_ranks(RANKS));
  if (r.index == 1) { // it takes its offer back, and makes it again
    offer(r);
    r.must(weft_ep_withdraw(r.ep, 1, DEADLINE_MS), "weft_ep_withdraw");
    offer(r);
  }
  r.world->meet(r, "the first offer");
  r.world->meet(r, "the change that failed");
  if (r.index == 2)
    offer(r);
  r.world->meet(r, "the second offer");
  r.must(weft_ep_await_start(r.ep, DEADLINE_MS, &first), "weft_ep_await_start");
  for (int i = 0; i <= FEW; i++) {
    r.pair();
    r.check_whole();
    if (i == 0)
      first_of_three[r.index] = r.op;
  }
  if (first != first_of_three[r.index])
    r.die("it was to start with operation %llu, and started with %llu", (unsigned long long)first,
          (unsigned long long)first_of_three[r.index]);
  judge(r, all_there(151));
  operate_to_the_end(r);
  r.close();
  r.world->meet(r, "the last operation");
  r.world->meet(r, "the end");
}

template <uint32_t step> void grow(rank &r) {
  if (r.index == 0)
    growing(r, step);
  else
    offering(r, step);
}

// --- one rank runs; two are in the view, and have no first operation yet, when it goes ---

enum { RUN_KEY = 170, NAP_MS = 5 };

const std::vector<int32_t> joiners = {1, 2};

void run_until_joined(rank &r) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(DEADLINE_MS);
  uint32_t count = 1;
  r.open(1, TIMEOUT_MS);
  r.must(weft_ep_activate(r.ep, DEADLINE_MS), "weft_ep_activate");
  r.fill(RUN_KEY, first_ranks(1));
  for (int i = 0; i < FEW; i++)
    r.pair();
  judge_alone(r, RUN_KEY);
  r.world->meet(r, "it runs");
  while (count < RANKS) {
    if (std::chrono::steady_clock::now() > deadline)
      r.die("the view has %u ranks after %d ms", count, DEADLINE_MS);
    r.must(weft_ep_committed_view(r.ep, nullptr, nullptr, 0, &count), "weft_ep_committed_view");
  }
}

// `least`: the first operation can be no earlier one.
void join_and_go_on(rank &r, uint64_t least) {
  r.world->meet(r, "it runs");
  r.open(1, TIMEOUT_MS);
  r.must(weft_ep_activate(r.ep, DEADLINE_MS), "weft_ep_activate");
  if (weft_ep_next_op(r.ep) < least)
    r.die("it begins with operation %llu, and %llu had run", (unsigned long long)weft_ep_next_op(r.ep),
          (unsigned long long)least);
  r.fill(RUN_KEY, joiners);
  for (int i = 0; i < FEW; i++)
    r.pair();
  r.check_whole();
  judge(r, {RUN_KEY, joiners, joiners, -1, {}, {}});
  r.leave();
}

// Nobody is left who could tell them an operation.
void desert(rank &r) {
  if (r.index != 0) {
    join_and_go_on(r, 0);
    return;
  }
  run_until_joined(r);
  r.close();
  r.world->meet(r, "the end");
}

// It leaves slowly, and tells them one.
void hand_over(rank &r) {
  const int32_t self = 0;
  if (r.index != 0) {
    join_and_go_on(r, FEW);
    return;
  }
  run_until_joined(r);
  r.must(weft_ep_disconnect(r.ep, &self, 1, DEADLINE_MS), "weft_ep_disconnect");
  while (weft_ep_is_active(r.ep)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(NAP_MS));
    r.pair();
  }
  r.close();
  r.world->meet(r, "the end");
}

// --- a wait that is interrupted ---

void interrupt(rank &r) {
  r.open(RANKS, TIMEOUT_MS);
  r.activate(RANKS);
  r.fill(160, first_ranks(RANKS));
  r.world->meet(r, "the input");
  if (r.index != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(2 * SHORT_MS)); // rank 0 waits meanwhile
  r.must(weft_ep_dispatch(r.ep, &r.dispatch, &r.recv, nullptr, &r.op), "dispatch");
  r.must(weft_ep_combine(r.ep, r.op, &r.combine, nullptr), "combine");
  if (r.index == 0) {
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(SHORT_MS / 3));
      weft_ep_interrupt(r.ep);
    });
    int rc = weft_ep_await(r.ep, r.op, nullptr, nullptr, DEADLINE_MS);
    other.join();
    if (rc != WEFT_ERR_CANCELED)
      r.die("a wait that is interrupted returns %s: %s", weft_err_name(rc), weft_last_error());
  }
  r.ask();
  judge(r, all_there(160));
  r.check_whole();
  r.leave();
}

const struct test tests[] = {
    {"grow", grow<1>},        {"grow_by_steps", grow<17>}, {"desert", desert},
    {"hand_over", hand_over}, {"interrupt", interrupt},
};

} // namespace

int main(int argc, char **argv) {
  return run_tests(tests, sizeof tests / sizeof *tests, argc, argv);
}
