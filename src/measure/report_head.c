// What the head of the text report says of the run as a whole, beyond its options.
#include <inttypes.h>

#include "measure/report.h"

// The experts that a token of the phase may select.
static int64_t experts_of(const struct results_phase *phase, int64_t experts_per_rank) {
  int64_t experts = 0;
  for (uint32_t i = 0; i < phase->num_ranks; i++)
    if (phase->ranks[i].state != RESULTS_NOT_MEMBER && phase->ranks[i].state != RESULTS_LEFT)
      experts += experts_per_rank;
  return experts;
}

// A token selects as many experts as it is to, or all where there are fewer: the other selections are empty.
void report_add_topk(struct text *text, const struct results *results) {
  const json_t *asked = json_object_get(results->config, "topk");
  const json_t *experts_per_rank = json_object_get(results->config, "experts_per_rank");
  int64_t topk = json_integer_value(asked), least = topk, most = 0;
  if (!json_is_integer(asked))
    return;
  for (uint32_t i = 0; json_is_integer(experts_per_rank) && i < results->num_phases; i++) {
    int64_t experts = experts_of(&results->phases[i], json_integer_value(experts_per_rank));
    int64_t selected = experts == 0 || experts > topk ? topk : experts;
    least = selected < least ? selected : least;
    most = selected > most ? selected : most;
  }
  text_add(text, "%stop-k ", text->size > 0 ? ", " : "");
  if (least == topk)
    text_add(text, "%" PRId64, topk);
  else if (least == most)
    text_add(text, "%" PRId64 " (of %" PRId64 ": there are no more experts)", least, topk);
  else
    text_add(text, "%" PRId64 " to %" PRId64 " (of %" PRId64 ": as many as a phase has experts)", least, most, topk);
}

void report_add_shortage(struct text *text, const struct results *results) {
  for (uint32_t i = 0; i < results->num_processors; i++) {
    const struct results_processors *at = &results->processors[i];
    if (at->usable == 0 || at->ranks <= at->usable)
      continue;
    text_add(text, "%s%" PRIu32 " ranks on %" PRIu32 " usable processor%s of %s", text->size > 0 ? ", " : "", at->ranks,
             at->usable, at->usable == 1 ? "" : "s", at->host);
  }
  if (text->size > 0)
    text_add(text, ": processors are short, so the figures are of waiting for them, too");
}
