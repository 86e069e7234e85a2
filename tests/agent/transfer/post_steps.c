// Counts the instructions of a post above the transport's own call, by single-stepping. Unlike valgrind, this counts
// the real readings of the clock (in the vDSO), and works over shared memory. The transport's callback at the end of
// the transfer counts as code of the agent.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "agent/support/pair.h"
#include "support/loop.h"

enum { LIMIT = 300, WARM = 3, TIMES = 5, MOST = 20000 };

#ifdef __x86_64__

// What the child tells of itself.
static struct { uintptr_t post, done; } * told;

static void be_counted(const struct transport *const *more, const char *transports) {
  struct pair pair;
  struct weft_agent_options options = WEFT_AGENT_OPTIONS_INIT;
  options.progress = WEFT_AGENT_PROGRESS_NONE;
  pair_open(&pair, transports, more, &options);
  weft_transfer_t *transfer = pair_transfer(&pair, WEFT_TRANSFER_WRITE, 0, 0, 8, NULL);
  for (int i = 0; i < WARM; i++) { // the linker's look-ups are done in the first
    assert_int_equal(weft_transfer_post(transfer), 0);
    assert_int_equal(weft_transfer_poll(transfer), 0);
  }
  told->post = (uintptr_t)transfer->parts[0].worker->transport->post;
  told->done = (uintptr_t)transfer->parts[0].request.done;
  raise(SIGSTOP);
  int rc = weft_transfer_post(transfer);
  raise(SIGSTOP);
  assert_int_equal(rc, 0);
  pair_free(transfer);
  pair_close(&pair);
}

// A call that is under way: from its first instruction until the stack is above it.
struct call {
  uintptr_t function, stack;
};

static bool is_in(struct call *call, const struct user_regs_struct *now) {
  if (!call->stack && now->rip == call->function)
    call->stack = now->rsp;
  else if (call->stack && now->rsp > call->stack)
    call->stack = 0;
  return call->stack != 0;
}

// Of the child that stands before its post.
static uint32_t count_steps(pid_t child) {
  struct call post = {.function = (uintptr_t)weft_transfer_post}, own = {.function = told->post};
  struct call back = {.function = told->done};
  uint32_t count = 0, own_count = 0;
  for (int i = 0; i < MOST; i++) {
    struct user_regs_struct now;
    int status;
    assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    if (WSTOPSIG(status) == SIGSTOP) {
      assert_true(own_count > 0);
      return count;
    }
    assert_int_equal(ptrace(PTRACE_GETREGS, child, NULL, &now), 0);
    bool in_post = is_in(&post, &now), in_own = is_in(&own, &now), in_back = is_in(&back, &now);
    own_count += in_post && in_own;
    count += in_post && (!in_own || in_back);
  }
  fail_msg("a post takes more than %d instructions", MOST);
  return 0;
}

static uint32_t count_post(const struct transport *const *more, const char *transports) {
  told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(told != MAP_FAILED);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
      _exit(77);
    be_counted(more, transports);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    print_message("nobody may be traced here: not counted\n");
    skip();
  }
  assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  uint32_t count = count_steps(child);
  assert_int_equal(ptrace(PTRACE_CONT, child, NULL, NULL), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  munmap(told, sizeof *told);
  return count;
}

// The least of some: who steps so slowly may be made to read a clock again.
static void judge(const char *what, const struct transport *const *more, const char *transports) {
  uint32_t count = UINT32_MAX;
  for (int i = 0; i < TIMES; i++) {
    uint32_t now = count_post(more, transports);
    count = now < count ? now : count;
  }
  print_message("%s: %u instructions besides the transport's post, to the end\n", what, count);
  assert_true(count < LIMIT);
}

static void test_any_thread_posts(void **state) {
  (void)state;
  judge("any thread", (const struct transport *const[]){&transport_loop_free, NULL}, "");
}

static void test_the_turn_posts(void **state) {
  (void)state;
  judge("turn", (const struct transport *const[]){&transport_loop, NULL}, "");
}

static void test_shared_memory(void **state) {
  (void)state;
  judge("shm", NULL, "shm");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_any_thread_posts),
      cmocka_unit_test(test_the_turn_posts),
      cmocka_unit_test(test_shared_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("skipped: it steps through x86-64 only\n");
  return 77;
}

#endif
