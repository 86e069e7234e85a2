// When a process started and whether it is alive, as seen by itself and by others.
#include "base/process.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time/clock.h"

#include "cmocka_all.h"

static pid_t start_child(void) {
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  assert_true(child > 0);
  return child;
}

static void this_process_lives_since_its_start(void **state) {
  (void)state;
  uint64_t start = process_start(getpid());
  assert_true(start > 0);
  assert_true(process_lives(getpid(), start));
  assert_true(process_lives(getpid(), 0));
  assert_false(process_lives(getpid(), start + 1));
}

// Which an emulator of user space would make two.
static void a_process_and_another_see_one_start(void **state) {
  (void)state;
  uint64_t parent = process_start(getpid());
  pid_t child = fork();
  if (child == 0)
    _exit(process_start(getppid()) == parent ? 0 : 1);
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void one_that_ended_lives_no_more_before_and_after_it_is_waited_for(void **state) {
  (void)state;
  pid_t child = start_child();
  uint64_t start = process_start(child);
  assert_true(process_lives(child, start));
  assert_int_equal(kill(child, SIGKILL), 0);
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
  assert_false(process_lives(child, start));
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_false(process_lives(child, start));
  assert_int_equal(process_start(child), 0);
}

// Another process may hold it, as a debugger does, and the kernel: nobody waits for that without an end.
static void one_that_is_held_is_waited_for_until_the_deadline(void **state) {
  (void)state;
  pid_t child = start_child();
  int status = -1, word[2] = {-1, -1};
  assert_false(process_reap(child, &status, clock_deadline_ms(1)));
  assert_int_equal(pipe(word), 0);
  pid_t tracer = fork();
  if (tracer == 0) {
    char held = ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0 ? 'y' : 'n';
    if (write(word[1], &held, 1) == 1)
      pause();
    _exit(0);
  }
  char held = 'n';
  assert_int_equal(read(word[0], &held, 1), 1);
  assert_int_equal(kill(child, SIGKILL), 0);
  if (held == 'y') // a container may not allow it
    assert_false(process_reap(child, &status, clock_deadline_ms(50)));
  process_end(tracer);
  assert_true(process_reap(child, &status, clock_deadline_ms(30000)));
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  assert_true(process_reap(child, &status, clock_deadline_ms(30000))); // there is no such child any more
  assert_int_equal(status, 0);
  close(word[0]);
  close(word[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_that_is_held_is_waited_for_until_the_deadline),
      cmocka_unit_test(this_process_lives_since_its_start),
      cmocka_unit_test(a_process_and_another_see_one_start),
      cmocka_unit_test(one_that_ended_lives_no_more_before_and_after_it_is_waited_for),
  };
  return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
