// The growing string.
#include "base/text/text.h"
#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/allocations.h"

static void pieces_are_joined_in_order(void **state) {
  (void)state;
  struct text text = {0};
  text_add(&text, "rank %d", 7);
  text_add_bytes(&text, " of ", 4);
  text_add(&text, "%s", "eight");
  assert_string_equal(text.data, "rank 7 of eight");
  assert_int_equal(text.size, strlen("rank 7 of eight"));
  assert_false(text.failed);
  text_free(&text);
}

static void it_grows_far_beyond_its_first_memory(void **state) {
  (void)state;
  struct text text = {0};
  for (int i = 0; i < 10000; i++)
    text_add(&text, "%04d", i);
  assert_int_equal(text.size, 40000);
  assert_int_equal(strlen(text.data), 40000);
  for (int i = 0; i < 10000; i++) {
    char number[12];
    snprintf(number, sizeof number, "%04d", i);
    assert_memory_equal(text.data + 4 * i, number, 4);
  }
  text_free(&text);
}

static void one_piece_may_be_larger_than_everything_before(void **state) {
  (void)state;
  char *large = malloc(100001);
  assert_non_null(large);
  memset(large, 'y', 100000);
  large[100000] = '\0';
  struct text text = {0};
  text_add(&text, "<");
  text_add(&text, "%s", large);
  text_add(&text, ">");
  assert_int_equal(text.size, 100002);
  assert_int_equal(text.data[100001], '>');
  text_free(&text);
  free(large);
}

static void bytes_may_hold_nul(void **state) {
  (void)state;
  struct text text = {0};
  text_add_bytes(&text, "a\0b", 3);
  assert_int_equal(text.size, 3);
  assert_memory_equal(text.data, "a\0b", 4); // with the NUL behind it
  text_free(&text);
}

static void taking_hands_over_and_empties(void **state) {
  (void)state;
  struct text text = {0};
  text_add(&text, "kept");
  char *taken = text_take(&text);
  assert_string_equal(taken, "kept");
  assert_null(text.data);
  assert_int_equal(text.size, 0);
  text_add(&text, "new");
  assert_string_equal(text.data, "new");
  assert_string_equal(taken, "kept");
  text_free(&text);
  free(taken);
}

static void taking_nothing_gives_an_empty_string(void **state) {
  (void)state;
  struct text text = {0};
  char *taken = text_take(&text);
  assert_non_null(taken);
  assert_string_equal(taken, "");
  free(taken);
}

static void a_part_of_a_text_is_not_taken_for_all_of_it(void **state) {
  (void)state;
  if (!allocations_counted())
    skip();
  int64_t live = allocations_live();
  struct text text = {0};
  text_add(&text, "the beginning");
  allocations_fail_here(1);
  text_add(&text, "%0200d", 0); // needs more memory than the beginning has
  assert_true(allocations_failed());
  text_add(&text, "the end");
  assert_true(text.failed);
  assert_null(text_take(&text));
  assert_int_equal(allocations_live(), live);
  assert_false(text.failed); // it may be used again
  text_add(&text, "anew");
  assert_string_equal(text.data, "anew");
  text_free(&text);
}

static void what_is_cut_says_so_behind_a_whole_word(void **state) {
  (void)state;
  char to[16];
  text_fit(to, sizeof to, "fifteen letters");
  assert_string_equal(to, "fifteen letters");
  text_fit(to, sizeof to, "sixteen letters!");
  assert_string_equal(to, "sixteen ...");
  text_fit(to, sizeof to, "eleven char and more");
  assert_string_equal(to, "eleven char ...");
  text_fit(to, sizeof to, "oneverylongwordofall");
  assert_string_equal(to, "oneverylong...");
  text_fit(to, sizeof to, "0123456789\u00e9\u00e9\u00e9\u00e9"); // its 11th byte begins a character of two
  assert_string_equal(to, "0123456789...");
  text_fit(to, sizeof to, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80");
  assert_string_equal(to, "...");
}

static void freeing_twice_or_unused_is_harmless(void **state) {
  (void)state;
  struct text text = {0};
  text_free(&text);
  text_add(&text, "x");
  text_free(&text);
  text_free(&text);
  assert_null(text.data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_are_joined_in_order),
      cmocka_unit_test(it_grows_far_beyond_its_first_memory),
      cmocka_unit_test(one_piece_may_be_larger_than_everything_before),
      cmocka_unit_test(bytes_may_hold_nul),
      cmocka_unit_test(taking_hands_over_and_empties),
      cmocka_unit_test(taking_nothing_gives_an_empty_string),
      cmocka_unit_test(a_part_of_a_text_is_not_taken_for_all_of_it),
      cmocka_unit_test(what_is_cut_says_so_behind_a_whole_word),
      cmocka_unit_test(freeing_twice_or_unused_is_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
