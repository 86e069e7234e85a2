// Time limits, node lists, sizes and names in files; words and values in scripts.
#include "slurm/schema/words.h"

#include "base/text/text.h"
#include "cmocka_all.h"
#include "slurm/core/lists.h"
#include "slurm/expand/names.h"
#include "slurm/script/quote.h"

static void time_limits_are_those_of_slurm(void **state) {
  static const struct {
    const char *text;
    uint64_t seconds;
  } right[] = {{"20", 1200},     {"2:30", 150},      {"00:30:00", 1800},   {"1-0", 86400},
               {"1-2:3", 93780}, {"1-2:3:4", 93784}, {"99:00:00", 356400}, {"unlimited", 0}};
  static const char *const wrong[] = {"",      "0",  "0:0", "a",         "1:2:3:4",     "1-", "-1",
                                      "1-2-3", "1:", "1.5", "1-2:3:4:5", "10000000000", " 5"};
  (void)state;
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    uint64_t seconds = 1;
    assert_null(slurm_time_limit_read(right[i].text, &seconds));
    assert_int_equal(seconds, right[i].seconds);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_non_null(slurm_time_limit_check(wrong[i]));
}

static void lists_of_nodes_are_counted(void **state) {
  static const struct {
    const char *text;
    size_t count;
  } right[] = {{"n1", 1},           {"n1,n2", 2},           {"n[1-4]", 4}, {"n[01-04,7],login-2", 6},
               {"r[1-2]n[1-3]", 6}, {"a.example.com, b", 2}};
  static const char *const wrong[] = {"",
                                      ",",
                                      "n1,",
                                      "n[",
                                      "n[]",
                                      "n[3-1]",
                                      "n[1-",
                                      "n 1",
                                      "n;m",
                                      "n[1-2]]",
                                      "-n",
                                      "n[1-100000000]",
                                      "a[1-1000]b[1-1000]",
                                      "a[1-65536]b[1-65536]c[1-65536]d[1-65536]"};
  (void)state;
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    size_t count = 0;
    assert_null(slurm_node_list_read(right[i].text, &count));
    assert_int_equal(count, right[i].count);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_non_null(slurm_node_list_check(wrong[i]));
}

static void sizes_have_units_of_1024(void **state) {
  uint64_t bytes = 0;
  (void)state;
  assert_true(slurm_size_read("64kb", &bytes) && bytes == 65536);
  assert_true(slurm_size_read("8GB", &bytes) && bytes == UINT64_C(8) << 30);
  assert_true(slurm_size_read("1.5 MiB", &bytes) && bytes == 3 << 19);
  assert_true(slurm_size_read("512", &bytes) && bytes == 512);
  assert_true(slurm_size_read("7b", &bytes) && bytes == 7);
  assert_false(slurm_size_read("kb", &bytes));
  assert_false(slurm_size_read("64 quarts", &bytes));
  assert_false(slurm_size_read("0.3", &bytes));
  assert_false(slurm_size_read("-1", &bytes));
  assert_false(slurm_size_read("ib", &bytes));
}

static void ids_are_names_of_directories(void **state) {
  (void)state;
  assert_null(slurm_id_check("nixl_ep.expansion-2"));
  for (const char *const *wrong = (const char *const[]){"", ".", "..", "a/b", "-x", "a b", "\xc3\xa4", NULL}; *wrong;
       wrong++)
    assert_non_null(slurm_id_check(*wrong));
}

static void expect_word(const char *word, const char *quoted) {
  struct text text = {0};
  slurm_quote_word(&text, word);
  assert_string_equal(text.data, quoted);
  text_free(&text);
}

static void words_reach_a_program_as_they_are(void **state) {
  (void)state;
  expect_word("--dtype", "--dtype");
  expect_word("", "''");
  expect_word("a b", "'a b'");
  expect_word("it's", "'it'\\''s'");
  expect_word("$HOME", "'$HOME'");
  expect_word("`id`;\n", "'`id`;\n'");
}

static void values_have_variables_and_nothing_else(void **state) {
  struct text text = {0};
  (void)state;
  slurm_quote_expanded(&text, "/a:$PATH:${HOME}:$(id) `id` \"x\" \\ $1 ${A:-b} $");
  assert_string_equal(text.data, "\"/a:${PATH:-}:${HOME:-}:\\$(id) \\`id\\` \\\"x\\\" \\\\ \\$1 \\${A:-b} \\$\"");
  text_free(&text);
  slurm_quote_toml(&text, "a\"\\\n");
  assert_string_equal(text.data, "\"a\\\"\\\\\\u000A\"");
  text_free(&text);
}

static void lines_are_split_as_a_shell_does(void **state) {
  struct slurm_memory memory = {0};
  struct slurm_words words = {0};
  (void)state;
  slurm_words_split(&memory, &words, "  --export=ALL --comment='two words' a\\ b \"c'd\"  ");
  assert_int_equal(words.count, 4);
  assert_string_equal(words.list[0], "--export=ALL");
  assert_string_equal(words.list[1], "--comment=two words");
  assert_string_equal(words.list[2], "a b");
  assert_string_equal(words.list[3], "c'd");
  slurm_words_split(&memory, &words, NULL);
  slurm_words_split(&memory, &words, "   ");
  assert_int_equal(words.count, 4);
  assert_true(slurm_words_split(&memory, &words, "''"));
  assert_false(slurm_words_split(&memory, &words, "--comment='two words"));
  assert_false(slurm_words_split(&memory, &words, "a \"b 'c'"));
  slurm_memory_free(&memory);
}

static void expect_without(const char *all_text, const char *taken_text, const char *rest) {
  struct slurm_memory memory = {0};
  struct slurm_words all = {0}, taken = {0};
  slurm_names_add(&memory, &all, all_text);
  slurm_names_add(&memory, &taken, taken_text);
  slurm_names_sort(&all);
  slurm_names_sort(&taken);
  const char *text = slurm_names_without(&memory, &all, &taken);
  if (rest)
    assert_string_equal(text, rest);
  else
    assert_null(text);
  slurm_memory_free(&memory);
}

static void nodes_are_taken_from_lists_by_name(void **state) {
  (void)state;
  expect_without("n[1-4]", "n[1-2]", "n[3-4]");
  expect_without("n[1-4],n[1-2]", "n[1-4]", NULL);
  expect_without("", "n1", NULL);
  expect_without("n[8-11], login", "n9", "login,n8,n[10-11]");
  expect_without("n[08-11],n[3,1]", "n1,n10", "n3,n[08-09],n11");
  expect_without("r[1-2]n[01-03]", "r1n[01-03],r2n02", "r2n01,r2n03");
  expect_without("n[1-2]-ib,a.b", "n2-ib", "a.b,n1-ib");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(time_limits_are_those_of_slurm),    cmocka_unit_test(lists_of_nodes_are_counted),
      cmocka_unit_test(sizes_have_units_of_1024),          cmocka_unit_test(ids_are_names_of_directories),
      cmocka_unit_test(words_reach_a_program_as_they_are), cmocka_unit_test(values_have_variables_and_nothing_else),
      cmocka_unit_test(lines_are_split_as_a_shell_does),   cmocka_unit_test(nodes_are_taken_from_lists_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
