// Text from others, made fit for a terminal.
#include "base/printable.h"
#include "cmocka_all.h"

#include <stdio.h>
#include <string.h>

static void expect(const char *text, const char *as_text, const char *as_line) {
  char copy[64];
  snprintf(copy, sizeof copy, "%s", text);
  printable_text(copy);
  assert_string_equal(copy, as_text);
  snprintf(copy, sizeof copy, "%s", text);
  printable_line(copy);
  assert_string_equal(copy, as_line);
}

static void what_is_text_stays(void **state) {
  (void)state;
  static const char *const right[] = {"",         "rank 3 was lost ~", "p\xC3\xA4r \xE2\x80\x93 so",
                                      "\xC2\xA0", "\xF0\x9F\x98\x80",  "\xF4\x8F\xBF\xBF\xED\x9F\xBF\xE0\xA0\x80"};
  for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
    expect(right[i], right[i], right[i]);
}

static void control_characters_go(void **state) {
  (void)state;
  expect("a\x1B[2Jb\r\a\x7F", "a?[2Jb???", "a?[2Jb???");
  expect("a\nb\tc", "a\nb?c", "a?b?c");
  expect("\xC2\x9B"
         "2J",
         "??2J", "??2J"); // CSI of C1
  expect("\x9B"
         "2J",
         "?2J", "?2J"); // and as terminals of 8 bits have it
}

static void what_is_no_utf8_goes(void **state) {
  (void)state;
  expect("\xC0\x9B", "??", "??");             // overlong
  expect("\xE0\x82\x9B", "???", "???");       // overlong
  expect("\xF0\x80\x82\x9B", "????", "????"); // overlong
  expect("\xED\xA0\x80", "???", "???");       // a surrogate
  expect("\xF4\x90\x80\x80", "????", "????"); // beyond Unicode
  expect("\xF5x\xFF", "?x?", "?x?");
  expect("x\xE2\x80", "x??", "x??"); // cut
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_text_stays),
      cmocka_unit_test(control_characters_go),
      cmocka_unit_test(what_is_no_utf8_goes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
