// The command line of a tool that was built with gflags: flags' words, --noNAME, and empty values.
#include "cli/option/option.h"
#include "cmocka_all.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

struct target {
  bool check;
  uint32_t count;
  const char *folder, *store, *own;
};

#define FIELD(member) OPTION_FIELD(struct target, member)

static const struct cli_option rows[] = {
    {.name = "check-all", .type = OPTION_FLAG, .preset = "no", FIELD(check), .help = "a flag"},
    {.name = "count", .type = OPTION_UINT, .preset = "7", FIELD(count), .help = "a number"},
    {.name = "folder", .type = OPTION_PATH, .preset = "here", FIELD(folder), .help = "a folder"},
    {.name = "store",
     .alias = "other-store",
     .type = OPTION_STRING,
     .variable = "WEFT_TEST_STORE",
     FIELD(store),
     .help = "a store with two names"},
    {.name = "own", .type = OPTION_STRING, FIELD(own), .help = "an option that gflags' tool does not have"},
};

enum { ROWS = sizeof rows / sizeof *rows, FOLDER = 2, MAX_ARGUMENTS = 8 };

static bool given[ROWS];

static int parse(struct target *target, bool gflags, const char *const *arguments) {
  static const char *const may_be_empty[] = {"folder", "other-store", NULL};
  const struct cli_option_table table = {
      .rows = rows, .count = ROWS, .given = given, .gflags = gflags, .may_be_empty = gflags ? may_be_empty : NULL};
  char *argv[MAX_ARGUMENTS + 2] = {(char *)"command"};
  int argc = 1;
  for (; arguments[argc - 1]; argc++)
    argv[argc] = (char *)arguments[argc - 1];
  memset(given, 0, sizeof given);
  memset(target, 0, sizeof *target);
  return cli_options_parse(table, target, argc, argv);
}

#define PARSE(target, ...)   parse(target, true, (const char *const[]){__VA_ARGS__, NULL})
#define REFUSED(gflags, ...) refused(gflags, (const char *const[]){__VA_ARGS__, NULL})

static const char *refused(bool gflags, const char *const *arguments) {
  struct target target;
  assert_int_equal(parse(&target, gflags, arguments), WEFT_ERR_INVALID);
  return weft_last_error();
}

static void a_flag_has_the_words_of_gflags(void **state) {
  static const char *const yes[] = {"t", "T", "true", "True", "1", "yes", "Y", "on"};
  static const char *const no[] = {"f", "F", "false", "FALSE", "0", "no", "n", "off"};
  (void)state;
  struct target target;
  char argument[32];
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
    snprintf(argument, sizeof argument, "--check_all=%s", yes[i]);
    assert_int_equal(PARSE(&target, "--nocheck_all", argument), 0);
    assert_true(target.check);
    snprintf(argument, sizeof argument, "-check_all=%s", no[i]);
    assert_int_equal(PARSE(&target, "--check_all", argument), 0);
    assert_false(target.check);
  }
  assert_int_equal(PARSE(&target, "--check_all", "F", "--count", "3"), 0);
  assert_false(target.check);
  assert_int_equal(target.count, 3);
  assert_string_equal(REFUSED(true, "--check_all=tr"), "--check_all: \"tr\" is neither yes nor no");
  assert_string_equal(REFUSED(false, "--check-all=t"), "--check-all: \"t\" is neither yes nor no");
}

static void no_before_a_name_clears_the_flag(void **state) {
  (void)state;
  struct target target;
  static const char *const spellings[] = {"--nocheck_all", "--nocheck-all", "-nocheck_all"};
  for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
    assert_int_equal(PARSE(&target, "--check_all", spellings[i]), 0);
    assert_false(target.check);
    assert_true(given[0]);
  }
  assert_int_equal(PARSE(&target, "--nocheck_all", "--check_all"), 0);
  assert_true(target.check);
  assert_non_null(strstr(REFUSED(true, "--nocheck_all=true"), "want --nocheck-all alone"));
  assert_non_null(strstr(REFUSED(true, "--nocount"), "unknown option --nocount"));
  assert_non_null(strstr(REFUSED(true, "--no"), "unknown option --no"));
  assert_non_null(strstr(REFUSED(false, "--nocheck-all"), "unknown option --nocheck-all; did you mean --check-all?"));
}

static void an_empty_value_means_not_given_where_the_table_says_so(void **state) {
  (void)state;
  struct target target;
  assert_int_equal(PARSE(&target, "--folder=", "--other_store", "", "--count", "3"), 0);
  assert_string_equal(target.folder, "here");
  assert_null(target.store);
  assert_int_equal(target.count, 3);
  assert_false(given[FOLDER]); // so a file may set it
  assert_int_equal(PARSE(&target, "--folder", "there", "-folder="), 0);
  assert_string_equal(target.folder, "here");
  assert_false(given[FOLDER]);
  setenv("WEFT_TEST_STORE", "of the environment", 1);
  int err = PARSE(&target, "--other-store=x", "--other-store=");
  unsetenv("WEFT_TEST_STORE");
  assert_int_equal(err, 0);
  assert_string_equal(target.store, "of the environment");
}

static void other_empty_values_are_refused(void **state) {
  (void)state;
  assert_string_equal(REFUSED(true, "--own="), "--own: is empty");
  assert_string_equal(REFUSED(true, "--store", ""), "--store: is empty"); // Weft's own name of that option
  assert_string_equal(REFUSED(true, "--count="), "--count: is empty");
  assert_string_equal(REFUSED(true, "--check_all="), "--check_all: is empty");
  assert_string_equal(REFUSED(false, "--folder="), "--folder: is empty");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_flag_has_the_words_of_gflags),
      cmocka_unit_test(no_before_a_name_clears_the_flag),
      cmocka_unit_test(an_empty_value_means_not_given_where_the_table_says_so),
      cmocka_unit_test(other_empty_values_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
