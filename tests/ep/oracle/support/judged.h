// What tests of the two judges say of a model's results.
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

// `place`: what the verdict has to say.
static inline void judged_refuse(const struct model *m, judged_fn judge, const char *place) {
  struct oracle_verdict verdict = judge(m);
  if (verdict.ok)
    fail_msg("accepted, though wrong at: %s", place);
  if (!strstr(verdict.what, place))
    fail_msg("refused, but it says \"%s\" instead of \"%s\"", verdict.what, place);
}

#endif
