// When initiators moved at the same time, which rows are measured again, and which are refused.
#include <string.h>

#include "bench/transfer/window.h"
#include "cmocka_all.h"

struct times {
  int64_t begin, end; // us
};

// Of two or three initiators, whose `fewest` requests ended in the window.
static bool holds(const struct times times[3], uint64_t fewest, bool *again, char why[256]) {
  struct transfer_window window = TRANSFER_WINDOW_INIT;
  for (int i = 0; i < 3 && times[i].end > 0; i++)
    transfer_window_add(&window, 1000 * times[i].begin, 1000 * times[i].end);
  *again = transfer_window_is_narrow(&window);
  *why = '\0';
  return transfer_window_holds(&window, fewest, NULL, why, 256);
}

static void together(void **state) {
  static const struct {
    struct times times[3];
    uint64_t fewest;
    bool again;
    const char *why; // ""; it holds
  } cases[] = {
      {{{100, 200}}, 1, false, ""},
      {{{100, 200}, {100, 200}}, 1, false, ""},
      {{{100, 200}, {150, 250}, {140, 240}}, 9, false, ""},
      {{{100, 200}, {100, 900}}, 12, true, ""},                                 // one is slow, and that is all
      {{{100, 200}, {100, 900}}, 0, true, "no request of one initiator ended"}, // it had no processor
      {{{100, 200}, {175, 275}}, 25, true, ""},                                 // a quarter
      {{{100, 200}, {176, 276}}, 24, true, "at the same time for only 24 us, of the 100 us"},
      {{{100, 200}, {199, 900}}, 1, true, "at the same time for only 1 us,"},
      {{{100, 200}, {120, 220}, {190, 290}}, 9, true, "at the same time for only 10 us,"},
      {{{100, 200}, {200, 300}}, 0, true, "at no time were all initiators active"},
      {{{100, 200}, {400, 500}}, 0, true, "at no time were all initiators active"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char why[256];
    bool again, well = holds(cases[i].times, cases[i].fewest, &again, why);
    if (well != !*cases[i].why || !strstr(why, cases[i].why) || again != cases[i].again)
      fail_msg("%zu: %d, again %d, %s", i, well, again, why);
  }
}

static void nobody(void **state) {
  struct transfer_window window = TRANSFER_WINDOW_INIT;
  char why[256] = "";
  (void)state;
  assert_true(transfer_window_ns(&window) == 0);
  assert_false(transfer_window_is_narrow(&window));
  assert_true(transfer_window_holds(&window, UINT64_MAX, NULL, why, sizeof why));
}

static void each_reason_ends_with_what_helps(void **state) {
  static const struct {
    int64_t begin;
    uint64_t fewest;
  } second[] = {{.begin = 400, .fewest = 0}, {.begin = 190, .fewest = 9}, {.begin = 110, .fewest = 0}};
  (void)state;
  for (size_t i = 0; i < sizeof second / sizeof *second; i++)
    for (int given = 0; given < 2; given++) {
      struct transfer_window window = TRANSFER_WINDOW_INIT;
      const char *ends = given ? ": a has 2 processors" : ": want more iterations (--num_iter)";
      char why[256];
      transfer_window_add(&window, 100000, 200000);
      transfer_window_add(&window, 1000 * second[i].begin, 1000 * (second[i].begin + 100));
      assert_false(
          transfer_window_holds(&window, second[i].fewest, given ? "a has 2 processors" : NULL, why, sizeof why));
      assert_string_equal(why + strlen(why) - strlen(ends), ends);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(together), cmocka_unit_test(nobody),
                                     cmocka_unit_test(each_reason_ends_with_what_helps)};
  return cmocka_run_group_tests_name("windows of transfers", tests, NULL, NULL);
}
