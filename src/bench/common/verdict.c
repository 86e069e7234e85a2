// Shares what the worker that reports has refused.
#include "bench/common/verdict.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "base/printable.h"

static struct bench_verdict judge(const struct figures *figures) {
  struct bench_verdict verdict = {0};
  for (uint32_t i = 0; figures && i < figures->num_rows && !verdict.refused; i++) {
    verdict.refused = figures->rows[i].refused[0] != '\0';
    snprintf(verdict.why, sizeof verdict.why, "%s", figures->rows[i].refused);
    printable_line(verdict.why); // a name in it may have bytes that JSON does not allow
  }
  return verdict;
}

int bench_verdict_share(struct meet *meet, uint32_t reporter, const struct figures *figures, uint32_t timeout_ms,
                        struct bench_verdict *verdict) {
  struct bench_verdict own = judge(figures);
  json_t *mine = json_string(own.why), **all = calloc(meet_size(meet), sizeof(json_t *));
  int err = mine && all ? 0 : fail(WEFT_ERR_NOMEM, "no memory for the verdict");
  if (!err)
    err = meet_all_gather(meet, "verdict", mine, timeout_ms, all);
  if (!err) {
    const char *why = json_string_value(all[reporter]);
    *verdict = (struct bench_verdict){.reporter = reporter, .refused = why && *why};
    snprintf(verdict->why, sizeof verdict->why, "%s", why ? why : "");
    printable_line(verdict->why);
  }
  for (uint32_t rank = 0; all && rank < meet_size(meet); rank++)
    json_decref(all[rank]);
  free(all);
  json_decref(mine);
  return err;
}

void bench_verdict_print(const struct bench_verdict *verdict, const char *command) {
  if (verdict->refused)
    fprintf(stderr, "%s: rank %u, which reports, has refused figures: %s\n", command, verdict->reporter, verdict->why);
}
