// Tables, printed into memory.
#include "base/text/table.h"
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const struct table_look plain = {.color = false, .unicode = false};

static void assert_prints(const struct table *table, const struct table_look *look, const char *expected) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  table_print(out, table, look);
  assert_int_equal(fclose(out), 0);
  assert_string_equal(text, expected);
  free(text);
}

static void columns_take_the_width_of_their_widest_text(void **state) {
  (void)state;
  static const struct table_column columns[] = {{.heading = "rank", .right = true}, {.heading = "state"}};
  struct table table = {.columns = columns, .num_columns = 2};
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "%d", 3);
  table_add(&table, TABLE_PLAIN, "passed");
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "%d", 12345);
  table_add(&table, TABLE_PLAIN, "no");
  assert_prints(&table, &plain, " rank  state\n    3  passed\n12345  no\n");
  table_free(&table);
}

static void a_column_without_content_is_left_out(void **state) {
  (void)state;
  static const struct table_column columns[] = {{.heading = "a"}, {.heading = "unused"}, {.heading = "b"}};
  struct table table = {.columns = columns, .num_columns = 3};
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "1");
  table_add(&table, TABLE_PLAIN, "%s", "");
  table_add(&table, TABLE_PLAIN, "2");
  table_row(&table); // and a row may be short
  table_add(&table, TABLE_PLAIN, "3");
  assert_prints(&table, &plain, "a  b\n1  2\n3\n");
  table_free(&table);
}

static void width_counts_code_points_not_bytes(void **state) {
  (void)state;
  assert_int_equal(table_width("µs"), 2);
  assert_int_equal(table_width("✓ ok"), 4);
  static const struct table_column columns[] = {{.heading = "t"}, {.heading = "u"}};
  struct table table = {.columns = columns, .num_columns = 2};
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "µµµ");
  table_add(&table, TABLE_PLAIN, "x");
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "abc");
  table_add(&table, TABLE_PLAIN, "y");
  assert_prints(&table, &plain, "t    u\nµµµ  x\nabc  y\n");
  table_free(&table);
}

static void control_characters_do_not_reach_the_terminal(void **state) {
  (void)state;
  static const struct table_column columns[] = {{.heading = "detail"}};
  struct table table = {.columns = columns, .num_columns = 1};
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "a\033[31mb\nc\177");
  assert_prints(&table, &plain, "detail\na?[31mb?c?\n");
  table_free(&table);
}

static void colour_goes_around_the_text_and_only_when_asked(void **state) {
  (void)state;
  static const struct table_column columns[] = {{.heading = "s"}, {.heading = "t"}};
  struct table table = {.columns = columns, .num_columns = 2};
  table_row(&table);
  table_add(&table, TABLE_GREEN, "ok");
  table_add(&table, TABLE_PLAIN, "x");
  const struct table_look coloured = {.color = true, .unicode = false};
  assert_prints(&table, &coloured, "\033[2ms\033[0m   \033[2mt\033[0m\n\033[32mok\033[0m  x\n");
  assert_prints(&table, &plain, "s   t\nok  x\n");
  table_free(&table);
}

static void a_group_stands_over_its_columns_and_widens_them(void **state) {
  (void)state;
  static const struct table_column columns[] = {
      {.heading = "r"}, {.heading = "x", .group = "dispatch"}, {.heading = "y", .group = "dispatch"}};
  struct table table = {.columns = columns, .num_columns = 3};
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "0");
  table_add(&table, TABLE_PLAIN, "1");
  table_add(&table, TABLE_PLAIN, "2");
  assert_prints(&table, &plain, "   - dispatch -\nr  x  y\n0  1  2\n");
  table_free(&table);

  table = (struct table){.columns = columns, .num_columns = 3};
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "0");
  table_add(&table, TABLE_PLAIN, "123456");
  table_add(&table, TABLE_PLAIN, "123456");
  assert_prints(&table, &plain, "   -- dispatch --\nr  x       y\n0  123456  123456\n");
  table_free(&table);
}

static void a_note_does_not_widen_the_columns(void **state) {
  (void)state;
  static const struct table_column columns[] = {{.heading = "r"}, {.heading = "s"}};
  struct table table = {.columns = columns, .num_columns = 2};
  for (int i = 0; i < 40; i++) { // more rows than the first memory holds
    table_row(&table);
    table_add(&table, TABLE_PLAIN, "%d", i % 10);
    table_add(&table, TABLE_PLAIN, "x");
    table_note(&table, 1, TABLE_PLAIN, "rank %d did not come", i % 10);
  }
  char expected[2048] = "r  s\n";
  for (int i = 0; i < 40; i++) {
    size_t used = strlen(expected);
    snprintf(expected + used, sizeof expected - used, "%d  x\n   rank %d did not come\n", i % 10, i % 10);
  }
  assert_prints(&table, &plain, expected);
  table_free(&table);
}

static void texts_wrap_where_there_is_not_enough_room(void **state) {
  (void)state;
  static const struct table_column columns[] = {
      {.heading = "name"}, {.heading = "why", .wrap = true}, {.heading = "n"}};
  const struct table_look narrow = {.width = 22};
  struct table table = {.columns = columns, .num_columns = 3};
  table_row(&table);
  table_add(&table, TABLE_PLAIN, "first");
  table_add(&table, TABLE_PLAIN, "it has one word more");
  table_add(&table, TABLE_PLAIN, "1");
  table_note(&table, 1, TABLE_PLAIN, "a note of several words");
  assert_prints(&table, &narrow,
                "name   why           n\n"
                "first  it has one    1\n"
                "       word more\n"
                "       a note of\n"
                "       several words\n");
  table_free(&table);
}

static void columns_stand_closer_and_then_some_go(void **state) {
  (void)state;
  static const struct table_column columns[] = {{.heading = "aaaa"},
                                                {.heading = "bbbb", .group = "group", .spare = 1},
                                                {.heading = "cccc", .group = "group", .spare = 2},
                                                {.heading = "dddd"}};
  struct table table = {.columns = columns, .num_columns = 4};
  table_row(&table);
  for (int i = 1; i <= 4; i++)
    table_add(&table, TABLE_PLAIN, "%d", i);
  assert_prints(&table, &(struct table_look){.width = 22},
                "      - group --\naaaa  bbbb  cccc  dddd\n1     2     3     4\n");
  assert_prints(&table, &(struct table_look){.width = 20}, "     - group -\naaaa bbbb cccc dddd\n1    2    3    4\n");
  assert_prints(&table, &(struct table_look){.width = 17}, "     group\naaaa bbbb  dddd\n1    2     4\n");
  FILE *nowhere = fopen("/dev/null", "w");
  assert_non_null(nowhere);
  assert_int_equal(table_print(nowhere, &table, &(struct table_look){.width = 17}), 1);
  assert_int_equal(table_print(nowhere, &table, &(struct table_look){.width = 9}), 2);
  assert_int_equal(table_print(nowhere, &table, &(struct table_look){.width = 3}), 2); // the others are always there
  fclose(nowhere);
  table_free(&table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(columns_take_the_width_of_their_widest_text),
      cmocka_unit_test(a_column_without_content_is_left_out),
      cmocka_unit_test(width_counts_code_points_not_bytes),
      cmocka_unit_test(control_characters_do_not_reach_the_terminal),
      cmocka_unit_test(colour_goes_around_the_text_and_only_when_asked),
      cmocka_unit_test(a_group_stands_over_its_columns_and_widens_them),
      cmocka_unit_test(a_note_does_not_widen_the_columns),
      cmocka_unit_test(texts_wrap_where_there_is_not_enough_room),
      cmocka_unit_test(columns_stand_closer_and_then_some_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
