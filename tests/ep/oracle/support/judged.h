// Assertions about the verdict of a judge on a model's results, for the tests of both judges.
#ifndef TESTS_EP_ORACLE_JUDGED_H
#define TESTS_EP_ORACLE_JUDGED_H

#include "cmocka_all.h"
#include <string.h>

#include "ep/oracle/support/model.h"

typedef struct oracle_verdict (*judged_fn)(const struct model *model);

static inline void judged_accept(const struct model *m, judged_fn judge) {
  struct oracle_verdict verdict = judge(m);
  if (!verdict.ok)
    fail_msg("refused: %s", verdict.what);
  assert_string_equal(verdict.what, "");
}

// `place`: words that the text of the verdict must contain.
static inline void judged_refuse(const struct model *m, judged_fn judge, const char *place) {
  struct oracle_verdict verdict = judge(m);
  if (verdict.ok)
    fail_msg("accepted, though wrong at: %s", place);
  if (!strstr(verdict.what, place))
    fail_msg("refused, but it says \"%s\" instead of \"%s\"", verdict.what, place);
}

#endif
