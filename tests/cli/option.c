// The option tables: every type, both ways to write an option, the precedence, and the errors for wrong ones.
#include "cli/option/option.h"
#include "base/text/nearest.h"
#include "cli/process/secrets.h"
#include "cmocka_all.h"
#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

enum color { RED, GREEN, BLUE };

struct target {
  uint16_t before; // neighbours that no value may touch
  uint16_t port;
  uint16_t after;
  uint32_t count;
  uint64_t seed;
  enum color color;
  bool json;
  const char *name, *file, *url;
};

#define FIELD(member) OPTION_FIELD(struct target, member)

static const char *const colors[] = {"red", "green", "blue", NULL};

static const struct cli_option rows[] = {
    {.name = "port", .type = OPTION_UINT, FIELD(port), .help = "a port"},
    {.name = "count",
     .letter = 'n',
     .type = OPTION_UINT,
     .min = 128,
     .max = 1024,
     .step = 128,
     .unit = "values",
     .preset = "256",
     .variable = "WEFT_TEST_COUNT",
     FIELD(count),
     .help = "a count"},
    {.name = "seed", .type = OPTION_UINT, FIELD(seed), .help = "a seed"},
    {.name = "color", .type = OPTION_ENUM, .choices = colors, .preset = "green", FIELD(color), .help = "a colour"},
    {.name = "json", .letter = 'j', .type = OPTION_FLAG, .variable = "WEFT_TEST_JSON", FIELD(json), .help = "a flag"},
    {.name = "name",
     .alias = "title",
     .type = OPTION_STRING,
     .variable = "WEFT_TEST_NAME",
     FIELD(name),
     .help = "a name"},
    {.name = "file", .type = OPTION_PATH, .metavar = "FILE", .operand = true, FIELD(file), .help = "a file"},
    {.name = "url", .type = OPTION_URL, FIELD(url), .help = "a server"},
};
static const struct cli_option_table table = OPTION_TABLE(rows);

enum { MAX_ARGUMENTS = 8 };

// Parses the arguments, NULL-terminated, behind a command's name.
static int parse(struct target *target, const char *const *arguments) {
  char *argv[MAX_ARGUMENTS + 2] = {(char *)"command"};
  int argc = 1;
  for (; arguments[argc - 1]; argc++)
    argv[argc] = (char *)arguments[argc - 1];
  *target = (struct target){.before = 0xAAAA, .after = 0xBBBB};
  return cli_options_parse(table, target, argc, argv);
}

#define PARSE(target, ...) parse(target, (const char *const[]){__VA_ARGS__, NULL})

// The arguments are refused, and the message holds `part`.
#define REFUSED(part, ...)                                                                                             \
  do {                                                                                                                 \
    struct target refused;                                                                                             \
    assert_int_equal(PARSE(&refused, __VA_ARGS__), WEFT_ERR_INVALID);                                                  \
    if (!strstr(weft_last_error(), part))                                                                              \
      fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), part);                                                 \
  } while (0)

static int clear_environment(void **state) {
  (void)state;
  unsetenv("WEFT_TEST_COUNT");
  unsetenv("WEFT_TEST_JSON");
  unsetenv("WEFT_TEST_NAME");
  return 0;
}

// --- secrets ---

struct secrets {
  const char *token, *password;
};

static const struct cli_option secret_rows[] = {
    {.name = "token",
     .letter = 't',
     .type = OPTION_STRING,
     .variable = "WEFT_TEST_TOKEN",
     .secret = true,
     OPTION_FIELD(struct secrets, token)},
    {.name = "token-file", .type = OPTION_SECRET_FILE, OPTION_FIELD(struct secrets, token)},
    {.name = "password",
     .type = OPTION_STRING,
     .variable = "WEFT_TEST_PASSWORD",
     .secret = true,
     OPTION_FIELD(struct secrets, password)},
};

static const struct cli_option_table secret_table = OPTION_TABLE(secret_rows);

static void a_secret_is_overwritten_where_it_was_given(void **state) {
  (void)state;
  char behind[] = "hush", equals[] = "--token=hush", letter[] = "-thush", name[] = "--password",
       *argv[] = {(char *)"x", name, behind, equals, NULL};
  struct secrets secrets = {0};
  assert_int_equal(cli_options_parse(secret_table, &secrets, 4, argv), 0);
  assert_string_equal(secrets.token, "hush");
  assert_string_equal(secrets.password, "hush");
  assert_string_equal(behind, "****");
  assert_string_equal(equals, "--token=****");
  char *short_argv[] = {(char *)"x", letter, NULL};
  assert_int_equal(cli_options_parse(secret_table, &secrets, 2, short_argv), 0);
  assert_string_equal(secrets.token, "hush");
  assert_string_equal(letter, "-t****");
}

static void a_secret_is_in_no_error(void **state) {
  (void)state;
  char name[] = "--token", dashed[] = "--hush", *argv[] = {(char *)"x", name, dashed, NULL};
  struct secrets secrets = {0};
  assert_int_equal(cli_options_parse(secret_table, &secrets, 3, argv), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "--token=..."));
  assert_null(strstr(weft_last_error(), "hush"));
}

// The variable's characters stay where the kernel put them, in /proc/PID/environ, unless they are overwritten.
static void a_secret_of_the_environment_is_wiped_there(void **state) {
  (void)state;
  char text[] = "WEFT_TEST_TOKEN=hush", *argv[] = {(char *)"x", NULL};
  struct secrets secrets = {0};
  assert_int_equal(putenv(text), 0);
  cli_secrets_take("WEFT_TEST_TOKEN");
  assert_null(getenv("WEFT_TEST_TOKEN"));
  assert_memory_equal(text, "WEFT_TEST_TOKEN=\0\0\0\0", sizeof text);
  assert_int_equal(cli_options_parse(secret_table, &secrets, 1, argv), 0);
  assert_string_equal(secrets.token, "hush");
}

static void a_secret_that_cannot_be_read_fails_where_it_is_wanted(void **state) {
  (void)state;
  char *argv[] = {(char *)"x", NULL};
  struct secrets secrets = {0};
  setenv("WEFT_TEST_PASSWORD_FILE", "/nowhere/password", 1);
  cli_secrets_take("WEFT_TEST_PASSWORD");
  unsetenv("WEFT_TEST_PASSWORD_FILE");
  assert_true(cli_options_parse(secret_table, &secrets, 1, argv) < 0);
  assert_non_null(strstr(weft_last_error(), "/nowhere/password"));
  assert_null(secrets.password);
}

static void every_type_is_stored_in_its_field_and_nowhere_else(void **state) {
  (void)state;
  struct target target;
  assert_int_equal(PARSE(&target, "--port=65535", "--count=1024", "--seed=18446744073709551615", "--color=blue",
                         "--json", "--name=a b", "--url=http://host:1", "path"),
                   0);
  assert_int_equal(target.port, 65535);
  assert_int_equal(target.before, 0xAAAA);
  assert_int_equal(target.after, 0xBBBB);
  assert_int_equal(target.count, 1024);
  assert_true(target.seed == UINT64_MAX);
  assert_int_equal(target.color, BLUE);
  assert_true(target.json);
  assert_string_equal(target.name, "a b");
  assert_string_equal(target.url, "http://host:1");
  assert_string_equal(target.file, "path");
}

static void a_value_stands_behind_a_blank_an_equals_sign_or_a_letter(void **state) {
  (void)state;
  struct target target;
  assert_int_equal(PARSE(&target, "--count", "512", "--name", "x=y"), 0);
  assert_int_equal(target.count, 512);
  assert_string_equal(target.name, "x=y");
  assert_int_equal(PARSE(&target, "--title=a=b", "-n", "128"), 0);
  assert_int_equal(target.count, 128);
  assert_string_equal(target.name, "a=b");
  assert_int_equal(PARSE(&target, "-n384", "-j"), 0);
  assert_int_equal(target.count, 384);
  assert_true(target.json);
}

static void the_command_line_wins_over_the_environment_and_that_over_the_preset(void **state) {
  (void)state;
  struct target target;
  assert_int_equal(PARSE(&target, "x"), 0);
  assert_int_equal(target.count, 256);
  assert_int_equal(target.color, GREEN);
  assert_null(target.name);
  setenv("WEFT_TEST_COUNT", "640", 1);
  setenv("WEFT_TEST_NAME", "", 1);
  setenv("WEFT_TEST_JSON", "1", 1);
  assert_int_equal(PARSE(&target, "x"), 0);
  assert_int_equal(target.count, 640);
  assert_null(target.name);
  assert_true(target.json);
  assert_int_equal(PARSE(&target, "--count=768", "--json=no"), 0);
  assert_int_equal(target.count, 768);
  assert_false(target.json);
  assert_int_equal(PARSE(&target, "--count=768", "--count=896"), 0);
  assert_int_equal(target.count, 896);
}

static void a_wrong_variable_is_refused_by_its_name(void **state) {
  (void)state;
  setenv("WEFT_TEST_COUNT", "640k", 1);
  REFUSED("WEFT_TEST_COUNT: \"640k\" is not a whole number; want 128 to 1024 values, a multiple of 128", "x");
}

static void help_is_given_whatever_else_is_wrong(void **state) {
  (void)state;
  struct target target;
  setenv("WEFT_TEST_COUNT", "wrong", 1);
  assert_int_equal(PARSE(&target, "--bogus", "--help"), OPTION_HELP);
  assert_int_equal(PARSE(&target, "-h"), OPTION_HELP);
  unsetenv("WEFT_TEST_COUNT");
  assert_int_equal(PARSE(&target, "--", "--help"), 0);
  assert_string_equal(target.file, "--help");
}

static void numbers_outside_their_range_are_refused_with_it(void **state) {
  (void)state;
  REFUSED("--count: 127 is out of range; want 128 to 1024 values, a multiple of 128", "--count=127");
  REFUSED("--count: 1025 is out of range", "--count=1025");
  REFUSED("--count: 200 is not a multiple of 128; the nearest are 128 and 256; want 128 to 1024 values", "--count",
          "200");
  REFUSED("--count: -128 is out of range", "--count", "-128");
  REFUSED("--port: 65536 is out of range; want 0 to 65535", "--port=65536");
  REFUSED("--seed: 18446744073709551616 is out of range", "--seed=18446744073709551616");
  REFUSED("--count: 99999999999999999999999999 is out of range", "--count=99999999999999999999999999");
  REFUSED("-n: 1 is out of range", "-n1");
}

static void what_is_no_number_is_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"x", "1x", "0x80", " 128", "128 ", "+128", "1e3", "-", "--128", "1.5"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char argument[32] = "--count=";
    strcat(argument, wrong[i]);
    REFUSED("is not a whole number", argument);
  }
  REFUSED("--count: is empty", "--count=");
}

static void a_wrong_choice_is_refused_with_the_right_ones_and_the_nearest(void **state) {
  (void)state;
  REFUSED("--color: \"grene\" is none of red, green, blue; did you mean green?", "--color=grene");
  REFUSED("--color: \"Xyzzyx\" is none of red, green, blue", "--color=Xyzzyx");
  REFUSED("--json: \"perhaps\" is neither yes nor no", "--json=perhaps");
}

static void servers_are_given_by_urls(void **state) {
  (void)state;
  static const char *const right[] = {"http://a", "https://a.b-c:2379", "http://127.0.0.1:1/", "http://[::1]:2379",
                                      "http://a:1,https://b:2"};
  static const char *const wrong[] = {
      "a:1",           "http://",      "http://:1",     "http://a:0",     "http://a:65536",
      "http://a:",     "ftp://a",      "http://a:1,",   ",http://a",      "http://a/b",
      "http://u@host", "http://a b:1", "http://[::1:2", "http://[]:2379", "http://a:1x"};
  struct target target;
  char argument[64];
  for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
    strcat(strcpy(argument, "--url="), right[i]);
    assert_int_equal(PARSE(&target, argument), 0);
    assert_string_equal(target.url, right[i]);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    strcat(strcpy(argument, "--url="), wrong[i]);
    REFUSED("is not the URL of a server; want http://HOST:PORT", argument);
  }
}

static void an_underscore_counts_as_a_hyphen(void **state) {
  (void)state;
  static const struct cli_option hyphened[] = {
      {.name = "the-name", .alias = "the-other-name", .type = OPTION_STRING, FIELD(name)}};
  const char *const written[] = {"--the_name=a_b", "--the-name=a_b", "--the_other-name=a_b"};
  for (size_t i = 0; i < 3; i++) {
    struct target target = {0};
    char text[32];
    strcpy(text, written[i]);
    char *argv[] = {(char *)"command", text, NULL};
    assert_int_equal(0, cli_options_parse((struct cli_option_table)OPTION_TABLE(hyphened), &target, 2, argv));
    assert_string_equal("a_b", target.name); // the value is kept
  }
}

static void a_long_name_may_have_gflags_where_the_table_says_so(void **state) {
  (void)state;
  struct cli_option_table gflags = table;
  gflags.gflags = true;
  const char *const written[][4] = {
      {"-name", "x"},         {"-name=x"},         {"--name", "x"}, {"-name=x", "-json"}, {"-name=x", "-json", "false"},
      {"-name=x", "-json=0"}, {"-j", "-name", "x"}};
  const bool json[] = {false, false, false, true, false, false, true};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    struct target target = {0};
    char texts[4][32] = {"command"}, *argv[5] = {texts[0]};
    int argc = 1;
    for (; argc <= 3 && written[i][argc - 1]; argc++)
      argv[argc] = strcpy(texts[argc], written[i][argc - 1]);
    assert_int_equal(0, cli_options_parse(gflags, &target, argc, argv));
    assert_string_equal("x", target.name);
    assert_int_equal(json[i], target.json);
  }
  struct target target = {0};
  char command[] = "command", wrong[] = "-tame=x";
  char *argv[] = {command, wrong, NULL};
  assert_int_equal(WEFT_ERR_INVALID, cli_options_parse(gflags, &target, 2, argv));
  assert_non_null(strstr(weft_last_error(), "did you mean"));
}

static void a_missing_value_is_refused(void **state) {
  (void)state;
  REFUSED("--name needs a value: --name VALUE", "--name");
  REFUSED("--file needs a value: --file FILE", "--file");
  REFUSED("-n needs a value", "-n");
  REFUSED("\"--json\" looks like an option; if it is meant, write --name=--json", "--name", "--json");
}

static void an_unknown_option_is_refused_with_the_nearest_right_one(void **state) {
  (void)state;
  REFUSED("unknown option --cuont; did you mean --count?", "--cuont=1");
  REFUSED("unknown option --titel; did you mean --title?", "--titel");
  REFUSED("unknown option --col; did you mean --color?", "--col");
  REFUSED("unknown option -json; did you mean --json?", "-json");
  REFUSED("unknown option --hepl; did you mean --help?", "--hepl");
  REFUSED("unknown option -x", "-x");
  REFUSED("unknown option --something-else", "--something-else");
  assert_null(strstr(weft_last_error(), "did you mean"));
}

static void operands_are_counted(void **state) {
  (void)state;
  struct target target;
  assert_int_equal(PARSE(&target, "a", "--json"), 0);
  assert_string_equal(target.file, "a");
  assert_int_equal(PARSE(&target, "--", "-j"), 0);
  assert_string_equal(target.file, "-j");
  assert_false(target.json);
  REFUSED("unexpected argument \"b\": FILE is \"a\" already", "a", "b");

  const struct cli_option_table no_operand = {.rows = rows, .count = 1};
  char *argv[] = {(char *)"command", (char *)"a"};
  assert_int_equal(cli_options_parse(no_operand, &target, 2, argv), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "unexpected argument \"a\""));
}

static void the_last_operand_may_take_all_that_are_left(void **state) {
  (void)state;
  struct {
    const char *first;
    struct cli_words words;
  } target = {0};
  const struct cli_option two[] = {
      {.name = "first", .type = OPTION_STRING, .metavar = "FIRST", .operand = true, .size = sizeof target.first},
      {.name = "words",
       .type = OPTION_WORDS,
       .metavar = "WORD",
       .operand = true,
       .offset = offsetof(__typeof__(target), words)},
  };
  const struct cli_option_table table_of_two = {.rows = two, .count = 2};
  char *argv[] = {(char *)"command", (char *)"a", (char *)"b", (char *)"c"};
  assert_int_equal(cli_options_parse(table_of_two, &target, 4, argv), 0);
  assert_string_equal(target.first, "a");
  assert_int_equal(target.words.count, 2);
  assert_string_equal(target.words.list[0], "b");
  assert_string_equal(target.words.list[1], "c");
}

static void a_required_option_may_not_be_missing(void **state) {
  (void)state;
  struct cli_option row = rows[6];
  row.required = true;
  const struct cli_option_table required = {.rows = &row, .count = 1};
  struct target target = {0};
  char *argv[] = {(char *)"command", (char *)"a"};
  assert_int_equal(cli_options_parse(required, &target, 1, argv), WEFT_ERR_INVALID);
  assert_string_equal(weft_last_error(), "FILE is missing: a file");
  assert_int_equal(cli_options_parse(required, &target, 2, argv), 0);
}

static void a_value_can_be_checked_alone(void **state) {
  (void)state;
  assert_int_equal(cli_option_check(&rows[1], "128"), 0);
  assert_int_equal(cli_option_check(&rows[1], "129"), WEFT_ERR_INVALID);
  assert_int_equal(cli_option_check(&rows[5], "anything"), 0);
  assert_int_equal(cli_option_check(&rows[7], "anything"), WEFT_ERR_INVALID);
}

static const char *nearest_of(const char *wanted, const char *const *names) {
  struct nearest nearest = {.wanted = wanted};
  for (; *names; names++)
    nearest_offer(&nearest, *names);
  return nearest.best;
}

static void the_nearest_name_is_found_by_its_letters(void **state) {
  (void)state;
  static const char *const names[] = {"elastic", "plan", "report", "serve", "num-tokens", "num-topk", NULL};
  assert_string_equal(nearest_of("elastik", names), "elastic");
  assert_string_equal(nearest_of("paln", names), "plan");
  assert_string_equal(nearest_of("num-tokn", names), "num-tokens");
  assert_string_equal(nearest_of("num-topkk", names), "num-topk");
  assert_string_equal(nearest_of("rep", names), "report");
  assert_string_equal(nearest_of("plan", names), "plan");
  assert_null(nearest_of("bandwidth", names));
  assert_null(nearest_of("x", names));
  assert_null(nearest_of("", names));
  char longest[200];
  memset(longest, 'a', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  assert_null(nearest_of(longest, names));
}

#define TEST(name) cmocka_unit_test_setup(name, clear_environment)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_secret_is_overwritten_where_it_was_given),
      TEST(a_secret_is_in_no_error),
      TEST(a_secret_of_the_environment_is_wiped_there),
      TEST(a_secret_that_cannot_be_read_fails_where_it_is_wanted),
      TEST(every_type_is_stored_in_its_field_and_nowhere_else),
      TEST(a_value_stands_behind_a_blank_an_equals_sign_or_a_letter),
      TEST(the_command_line_wins_over_the_environment_and_that_over_the_preset),
      TEST(a_wrong_variable_is_refused_by_its_name),
      TEST(help_is_given_whatever_else_is_wrong),
      TEST(numbers_outside_their_range_are_refused_with_it),
      TEST(what_is_no_number_is_refused),
      TEST(a_wrong_choice_is_refused_with_the_right_ones_and_the_nearest),
      TEST(servers_are_given_by_urls),
      TEST(an_underscore_counts_as_a_hyphen),
      TEST(a_long_name_may_have_gflags_where_the_table_says_so),
      TEST(a_missing_value_is_refused),
      TEST(an_unknown_option_is_refused_with_the_nearest_right_one),
      TEST(operands_are_counted),
      TEST(the_last_operand_may_take_all_that_are_left),
      TEST(a_required_option_may_not_be_missing),
      TEST(a_value_can_be_checked_alone),
      TEST(the_nearest_name_is_found_by_its_letters),
  };
  return cmocka_run_group_tests_name("cli option", tests, NULL, NULL);
}
