// Children of fork() recognise the handles that are not theirs.
#include "base/forked.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/err.h>

#include "cmocka_all.h"

static int end_of(pid_t child) {
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_a_handle_is_its_process_own(void **state) {
  (void)state;
  uint32_t opened = forked_now();
  assert_false(forked_since(opened));
  assert_int_equal(forked_check(opened, "the store"), 0);
  pid_t child = fork();
  if (child == 0)
    _exit(forked_since(opened) && forked_check(opened, "the store") == WEFT_ERR_CLOSED &&
                  strstr(weft_last_error(), "the store was opened before this process was forked")
              ? 0
              : 1);
  assert_int_equal(end_of(child), 0);
  assert_false(forked_since(opened)); // the parent's handles stay
}

static void test_a_child_and_its_child_have_handles_of_their_own(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    uint32_t opened = forked_now();
    if (forked_since(opened))
      _exit(1);
    pid_t grandchild = fork();
    if (grandchild == 0)
      _exit(forked_since(opened) ? 0 : 2);
    int status = -1;
    waitpid(grandchild, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  }
  assert_int_equal(end_of(child), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_handle_is_its_process_own),
      cmocka_unit_test(test_a_child_and_its_child_have_handles_of_their_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
