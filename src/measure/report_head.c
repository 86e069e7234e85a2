// The lines in the head of the text report that describe the run as a whole, besides its options.
#include <inttypes.h>
#include <string.h>

#include "measure/report.h"

// The number of experts that a token of the phase may select.
static int64_t experts_of(const struct results_phase *phase, int64_t experts_per_rank) {
  int64_t experts = 0;
  for (uint32_t i = 0; i < phase->num_ranks; i++)
    if (phase->ranks[i].state != RESULTS_NOT_MEMBER && phase->ranks[i].state != RESULTS_LEFT)
      experts += experts_per_rank;
  return experts;
}

// Adds the number of experts that a token really selects. If there are fewer experts than it has to select, it selects
// all of them, and its other selections are empty.
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
    text_add(text, ": too few processors, so the figures include waiting for them");
}

// --- throughput ---

void report_add_window(struct text *text, const struct results *results) {
  json_int_t window = json_integer_value(json_object_get(results->config, "window_bytes"));
  json_int_t alignment = json_integer_value(json_object_get(results->config, "alignment"));
  json_int_t processors = json_integer_value(json_object_get(results->config, "processors"));
  window = window ? window : 64 << 20;
  if (window >= 1 << 20)
    text_add(text, ", rows flow through %.4g MiB a peer", (double)window / (1 << 20));
  else
    text_add(text, ", rows flow through %.4g KiB a peer", (double)window / 1024);
  if (alignment > 1)
    text_add(text, ", packed parts aligned to %lld rows", (long long)alignment);
  if (processors)
    text_add(text, ", at most %lld processors a kernel", (long long)processors);
}

void report_add_left_out(struct text *text, const struct results *results) {
  json_t *why = json_object_get(results->config, "left_out_why"), *sentence;
  const char *name;
  json_object_foreach(why, name, sentence)
      text_add(text, "%s%s, because %s", text->size ? "; " : "", name, json_string_value(sentence));
}

// --- what the hardware allows ---

static double wire_gbps(const struct results_rank *rank) {
  return rank->state == RESULTS_PASSED
             ? results_gbps(rank->dispatch_wire_bytes + rank->combine_wire_bytes, rank->both.avg)
             : 0;
}

// The most that the ranks of one host moved together, or that one rank moved. `who` becomes one of these ranks.
static double find_most(const struct results_phase *phase, bool of_hosts, const struct results_rank **who) {
  double most = 0;
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    double sum = 0;
    for (uint32_t k = 0; k < phase->num_ranks; k++)
      if (k == i || (of_hosts && strcmp(phase->ranks[k].host, phase->ranks[i].host) == 0))
        sum += wire_gbps(&phase->ranks[k]);
    if (sum > most) {
      most = sum;
      *who = &phase->ranks[i];
    }
  }
  return most;
}

static void add_ratio(struct text *text, const struct results *results, bool of_hosts, double gbps) {
  const struct results_phase *phase = results_last_passed(results);
  const struct results_rank *who = NULL;
  double most = phase ? find_most(phase, of_hosts, &who) : 0;
  if (!who)
    return;
  if (of_hosts)
    text_add(text, "; the ranks of %s", who->host);
  else
    text_add(text, "; rank %" PRId32, who->rank);
  text_add(text, " moved %.2f GB/s on the wire in phase %" PRIu32 ", %.3g %% of it", most, phase->index,
           100 * most / gbps);
  if (most > 1.05 * gbps)
    text_add(text, ", which cannot be true: measure the bound again with 'weft bench limits'");
}

void report_add_bound(struct text *text, const struct results *results) {
  const json_t *bound = json_object_get(results->config, "bound");
  const char *name = json_string_value(json_object_get(bound, "name"));
  const char *detail = json_string_value(json_object_get(bound, "detail"));
  const char *of = json_string_value(json_object_get(bound, "of"));
  double gbps = json_number_value(json_object_get(bound, "gb_per_second"));
  if (!name || !detail || !of)
    return;
  if (gbps > 0) {
    text_add(text, "%s, %.4g GB/s (%s)", name, gbps,
             json_is_true(json_object_get(bound, "measured")) ? "measured" : "described by the hardware");
    add_ratio(text, results, strcmp(of, "host") == 0, gbps);
  } else {
    text_add(text, "%s, not known: %s", name, detail);
  }
}
