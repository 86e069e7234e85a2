// Text in lines.
#include "base/text/wrap.h"
#include "cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static void assert_writes(const char *text, size_t at, size_t indent, size_t width, const char *expected) {
  char *out = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&out, &size);
  assert_non_null(file);
  wrap_write(file, text, at, indent, width);
  assert_int_equal(fclose(file), 0);
  assert_string_equal(out, expected);
  free(out);
}

static void lines_are_broken_at_blanks(void **state) {
  (void)state;
  assert_writes("one two three", 0, 0, 7, "one two\nthree\n");
  assert_writes("one two three", 0, 2, 8, "one two\n  three\n");
  assert_writes("one two", 0, 0, 7, "one two\n");
  assert_writes("", 0, 0, 7, "\n");
}

static void the_first_line_goes_on_behind_what_stands_there(void **state) {
  (void)state;
  assert_writes("one two", 4, 4, 8, "one\n    two\n");
  assert_writes("one two", 6, 2, 8, "\n  one\n  two\n");
}

static void a_newline_begins_a_line(void **state) {
  (void)state;
  assert_writes("one\ntwo", 0, 2, 80, "one\n  two\n");
}

static void a_long_word_stays_whole(void **state) {
  (void)state;
  assert_writes("see /a/long/path/to/a/file now", 0, 0, 8, "see\n/a/long/path/to/a/file\nnow\n");
}

static void columns_are_characters_and_controls_are_shown(void **state) {
  (void)state;
  assert_writes("µµµ µµµ", 0, 0, 7, "µµµ µµµ\n");
  assert_writes("a\033b", 0, 0, 7, "a?b\n");
}

static void pieces_hold_the_whole_text(void **state) {
  (void)state;
  const char *text = "a word, averyveryverylongword and µµµµµµµµµµµµ";
  char joined[64] = "";
  for (const char *at = text; *at;) {
    size_t size = wrap_length(at, 6), columns = 0;
    for (size_t i = 0; i < size; i++)
      columns += ((unsigned char)at[i] & 0xC0) != 0x80;
    assert_true(size > 0 && columns <= 6);
    strncat(joined, at, size);
    const char *next = wrap_after(at, size);
    strncat(joined, at + size, (size_t)(next - at) - size);
    at = next;
  }
  assert_string_equal(joined, text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_are_broken_at_blanks),
      cmocka_unit_test(the_first_line_goes_on_behind_what_stands_there),
      cmocka_unit_test(a_newline_begins_a_line),
      cmocka_unit_test(a_long_word_stays_whole),
      cmocka_unit_test(columns_are_characters_and_controls_are_shown),
      cmocka_unit_test(pieces_hold_the_whole_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
