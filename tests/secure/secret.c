// Secrets: generated, derived, passed to children, and read from where users put them.
#include "secure/secret.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/err.h>

#include "cmocka_all.h"

#define VARIABLE "WEFT_TEST_SECRET"

static void forget(void) {
  unsetenv(VARIABLE);
  unsetenv(VARIABLE "_FD");
  unsetenv(VARIABLE "_FILE");
}

static void test_made(void **state) {
  char a[SECRET_DIGITS + 1], b[SECRET_DIGITS + 1];
  (void)state;
  secret_make(a);
  secret_make(b);
  assert_int_equal(strlen(a), SECRET_DIGITS);
  assert_int_equal(strspn(a, "0123456789abcdef"), SECRET_DIGITS);
  assert_string_not_equal(a, b);
}

static void test_keys(void **state) {
  static const char *const secrets[] = {"short", "0123456789abcdef0123456789abcdef"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    uint8_t a[SECRET_KEY_SIZE], b[SECRET_KEY_SIZE], other[SECRET_KEY_SIZE];
    assert_int_equal(secret_derive(secrets[i], "one", a), 0);
    assert_int_equal(secret_derive(secrets[i], "one", b), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(secret_derive(secrets[i], "two", other), 0);
    assert_memory_not_equal(a, other, sizeof a);
    assert_int_equal(secret_derive(secrets[1 - i], "one", other), 0);
    assert_memory_not_equal(a, other, sizeof a);
  }
  uint8_t key[SECRET_KEY_SIZE];
  assert_int_equal(secret_derive("", "one", key), WEFT_ERR_INVALID);
  assert_int_equal(secret_derive(NULL, "one", key), WEFT_ERR_INVALID);
}

static void test_variable(void **state) {
  char *text = NULL;
  (void)state;
  forget();
  assert_int_equal(secret_from_environment(VARIABLE, &text), 0);
  assert_null(text);
  setenv(VARIABLE, "plain", 1);
  assert_int_equal(secret_from_environment(VARIABLE, &text), 0);
  assert_string_equal(text, "plain");
  assert_null(getenv(VARIABLE)); // no child gets it by accident
  secret_free(text);
}

static void test_descriptor(void **state) {
  char number[16], *text = NULL;
  int fd;
  (void)state;
  forget();
  assert_int_equal(secret_to_descriptor("handed over", &fd), 0);
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(write(fd, "x", 1), -1); // sealed
  snprintf(number, sizeof number, "%d", fd);
  setenv(VARIABLE "_FD", number, 1);
  assert_int_equal(secret_from_environment(VARIABLE, &text), 0);
  assert_string_equal(text, "handed over");
  assert_int_equal(fcntl(fd, F_GETFD), -1);
  secret_free(text);
  setenv(VARIABLE "_FD", "none", 1);
  assert_int_equal(secret_from_environment(VARIABLE, &text), WEFT_ERR_INVALID);
}

static void test_file(void **state) {
  const char *folder = getenv("TMPDIR");
  char path[256], *text = NULL;
  (void)state;
  forget();
  snprintf(path, sizeof path, "%s/weft-secret-XXXXXX", folder ? folder : "/tmp");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "from a file\nno more\n", 20), 20);
  setenv(VARIABLE "_FILE", path, 1);
  assert_int_equal(secret_from_environment(VARIABLE, &text), 0);
  assert_string_equal(text, "from a file");
  secret_free(text);
  text = NULL;
  assert_int_equal(fchmod(fd, 0640), 0);
  assert_int_equal(secret_from_environment(VARIABLE, &text), WEFT_ERR_INVALID); // others may read it
  assert_null(text);
  assert_int_equal(fchmod(fd, 0600), 0);
  setenv(VARIABLE, "plain", 1);
  assert_int_equal(secret_from_environment(VARIABLE, &text), WEFT_ERR_INVALID); // which of the two?
  assert_int_equal(ftruncate(fd, 0), 0);
  unsetenv(VARIABLE);
  assert_int_equal(secret_from_environment(VARIABLE, &text), WEFT_ERR_INVALID); // empty
  assert_int_equal(pwrite(fd, "a\0long one", 10, 0), 10);
  assert_int_equal(secret_from_environment(VARIABLE, &text), WEFT_ERR_INVALID); // "a" is not what was meant
  close(fd);
  unlink(path);
  forget();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_made),       cmocka_unit_test(test_keys), cmocka_unit_test(test_variable),
      cmocka_unit_test(test_descriptor), cmocka_unit_test(test_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
