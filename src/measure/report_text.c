// The report as text: what ran, a table for each phase, the transitions, the result.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "base/text/wrap.h"
#include "measure/report.h"

const struct report_state report_states[] = {
    [RESULTS_NOT_MEMBER] = {"·", ".", "not a member", "no member", TABLE_DIM},
    [RESULTS_PASSED] = {"✓", "+", "passed", "passed", TABLE_GREEN},
    [RESULTS_FAILED] = {"✗", "!", "FAILED", "FAILED", TABLE_RED},
    [RESULTS_KILLED] = {"†", "x", "killed as planned", "killed", TABLE_YELLOW},
    [RESULTS_LEFT] = {"←", "<", "left", "left", TABLE_CYAN},
    [RESULTS_UNREACHED] = {"○", "?", "unreached", "unreached", TABLE_MAGENTA},
    [RESULTS_INTERRUPTED] = {"◐", "~", "interrupted", "interrupted", TABLE_MAGENTA},
    [RESULTS_LOST] = {"✕", "X", "lost with an agent", "lost", TABLE_YELLOW},
};

void report_count(struct report_counts *counts, const struct results_phase *phase) {
  for (uint32_t i = 0; i < phase->num_ranks; i++)
    counts->of[phase->ranks[i].state]++;
}

void report_add_counts(struct text *text, const struct report_counts *counts) {
  const char *before = "";
  for (int state = RESULTS_PASSED; state < RESULTS_NUM_STATES; state++) {
    if (counts->of[state] == 0)
      continue;
    text_add(text, "%s%" PRIu32 " %s", before, counts->of[state], report_states[state].label);
    before = ", ";
  }
}

// Prints `text` in as many lines as the width requires, with a label before the first line.
static void print_labelled(FILE *out, const struct report_options *options, const char *label,
                           enum table_style label_style, enum table_style style, const char *text) {
  enum { INDENT = 9 };
  while (*text) {
    size_t length = wrap_length(text, report_width(options) - INDENT);
    char *line = strndup(text, length);
    table_print_text(out, options->color, label_style, label, INDENT);
    if (line) {
      printable_line(line);
      table_print_text(out, options->color, style, line, 0);
    }
    fputc('\n', out);
    free(line);
    label = "";
    text = wrap_after(text, length);
  }
}

// In `format`, # is replaced by the number, and ~ by the ending of the plural if the number needs it.
static void add_number(struct text *text, const json_t *config, const char *key, const char *format) {
  const json_t *number = json_object_get(config, key);
  if (!json_is_integer(number))
    return;
  text_add(text, "%s", text->size > 0 ? ", " : "");
  json_int_t value = json_integer_value(number);
  for (const char *at = format; *at; at++) {
    if (*at == '#')
      text_add(text, "%" JSON_INTEGER_FORMAT, value);
    else if (*at == '~')
      text_add(text, "%s", text_s((uint64_t)value));
    else
      text_add_bytes(text, at, 1);
  }
}

static void add_word(struct text *text, const json_t *config, const char *key, const char *noun) {
  const char *word = json_string_value(json_object_get(config, key));
  if (word)
    text_add(text, "%s%s%s", text->size > 0 ? ", " : "", word, noun);
}

// Finds the name of the ranks' GPUs, "" if the names differ or there are none, and the most memory that any rank takes.
static void find_memory(const struct results *results, const char **gpu_name, uint64_t *window_bytes) {
  bool differ = false;
  *gpu_name = "";
  *window_bytes = 0;
  for (uint32_t i = 0; i < results->num_phases; i++) {
    for (uint32_t k = 0; k < results->phases[i].num_ranks; k++) {
      const struct results_rank *rank = &results->phases[i].ranks[k];
      if (rank->window_bytes > *window_bytes)
        *window_bytes = rank->window_bytes;
      if (!*rank->gpu_name)
        continue;
      differ |= **gpu_name && strcmp(*gpu_name, rank->gpu_name) != 0;
      *gpu_name = rank->gpu_name;
    }
  }
  if (differ)
    *gpu_name = "";
}

// Prints where the operations ran, and which clock timed them. Results of older versions do not have this.
static void print_memory(FILE *out, const struct results *results, const struct report_options *options) {
  const char *memory = json_string_value(json_object_get(results->config, "memory")), *gpu_name;
  const char *why = json_string_value(json_object_get(results->config, "memory_why"));
  uint64_t window_bytes;
  struct text line = {0};
  if (!memory)
    return;
  find_memory(results, &gpu_name, &window_bytes);
  bool cuda = strcmp(memory, "cuda") == 0;
  text_add(&line, "%s%s%s", memory, *gpu_name ? ", " : "", gpu_name);
  if (window_bytes >= 100000)
    text_add(&line, ", up to %.1f MB of windows and workspace a rank", (double)window_bytes / 1e6);
  else if (window_bytes > 0)
    text_add(&line, ", up to %.1f kB of windows and workspace a rank", (double)window_bytes / 1e3);
  text_add(&line, "; times by %s, waiting for peers included",
           cuda ? "CUDA events around each half" : "the host's clock");
  if (why)
    text_add(&line, "; not on GPUs, because %s", why);
  print_labelled(out, options, "memory", TABLE_DIM, TABLE_PLAIN, line.data ? line.data : memory);
  text_free(&line);
}

// Prints how rows are sent, and which checks of the throughput mode are left out, since the library does not have them.
static void print_mode(FILE *out, const struct results *results, const struct report_options *options) {
  const char *mode = json_string_value(json_object_get(results->config, "mode"));
  struct text line = {0}, left_out = {0};
  if (!mode || strcmp(mode, "throughput") != 0)
    return;
  text_add(&line, "throughput");
  report_add_window(&line, results);
  report_add_left_out(&left_out, results);
  print_labelled(out, options, "mode", TABLE_DIM, TABLE_PLAIN, line.data ? line.data : mode);
  print_labelled(out, options, "left out", TABLE_DIM, TABLE_YELLOW, left_out.data ? left_out.data : "");
  text_free(&line);
  text_free(&left_out);
}

static void print_header(FILE *out, const struct results *results, const struct report_options *options) {
  struct text run = {0}, sizes = {0}, shortage = {0}, bound = {0};
  const char *uses = json_string_value(json_object_get(results->config, "uses")); // only between hosts
  const char *dot = options->unicode ? "·" : "-";
  text_add(&run, "%s %s job %s %s %s, took %.1f s %s weft %s", results->run, dot, results->job, dot, results->started,
           results->elapsed_s, dot, results->version);
  add_number(&sizes, results->config, "num_tokens", "# token~");
  add_number(&sizes, results->config, "hidden", "hidden #");
  report_add_topk(&sizes, results);
  add_number(&sizes, results->config, "experts_per_rank", "# expert~ per rank");
  add_word(&sizes, results->config, "dtype", "");
  add_word(&sizes, results->config, "layout", " layout");
  add_number(&sizes, results->config, "iterations", "# timed operation~ a phase");
  print_labelled(out, options, "run", TABLE_DIM, TABLE_PLAIN, run.data ? run.data : results->run);
  print_labelled(out, options, "sizes", TABLE_DIM, TABLE_PLAIN, sizes.data ? sizes.data : "");
  print_mode(out, results, options);
  print_memory(out, results, options);
  report_add_shortage(&shortage, results);
  print_labelled(out, options, "short", TABLE_DIM, TABLE_YELLOW, shortage.data ? shortage.data : "");
  print_labelled(out, options, "store", TABLE_DIM, TABLE_PLAIN, results->store);
  print_labelled(
      out, options, "GB/s", TABLE_DIM, TABLE_PLAIN,
      "logical counts every (token, expert) selection; wire counts the bytes sent, a token once to each other rank");
  print_labelled(out, options, "uses", TABLE_DIM, TABLE_PLAIN, uses ? uses : "");
  report_add_bound(&bound, results);
  print_labelled(out, options, "bound", TABLE_DIM, TABLE_PLAIN, bound.data ? bound.data : "");
  text_free(&run);
  text_free(&sizes);
  text_free(&shortage);
  text_free(&bound);
}

static void add_checks(struct text *text, const struct results *results) {
  uint64_t checked = 0, lost = 0;
  for (uint32_t i = 0; i < results->num_phases; i++) {
    for (uint32_t k = 0; k < results->phases[i].num_ranks; k++) {
      checked += results->phases[i].ranks[k].checked;
      lost += results->phases[i].ranks[k].num_lost_selections;
    }
  }
  text_add(text, "; %" PRIu64 " check%s", checked, checked == 1 ? "" : "s");
  if (lost > 0)
    text_add(text, ", %" PRIu64 " selection%s lost: (token, expert) pairs whose rank died before it answered", lost,
             lost == 1 ? "" : "s");
}

// Prints why the run failed, if it did, and the closing line.
static void print_verdict(FILE *out, const struct results *results, const struct report_options *options) {
  struct report_counts counts = {0};
  for (uint32_t i = 0; i < results->num_phases; i++)
    report_count(&counts, &results->phases[i]);
  struct text line = {0};
  text_add(&line, "%" PRIu32 " phase%s%s", results->num_phases, results->num_phases == 1 ? "" : "s",
           results->num_phases > 0 ? ": " : "");
  report_add_counts(&line, &counts);
  add_checks(&line, results);
  const struct results_phase *last = results_last_passed(results);
  if (last)
    text_add(&line, "; default %.2f GB/s (mean of phase %" PRIu32 ")", results_default_metric(results), last->index);
  else
    text_add(&line, "; no phase passed");
  if (!results->passed)
    text_add(&line, "; exit status %d", results->exit_status);
  const struct report_state *state = &report_states[results->passed ? RESULTS_PASSED : RESULTS_FAILED];
  char label[32];
  snprintf(label, sizeof label, "%s %s", options->unicode ? state->unicode : state->ascii, state->label);
  fputc('\n', out);
  if (!results->passed)
    print_labelled(out, options, "error", TABLE_DIM, TABLE_RED, results->error);
  print_labelled(out, options, label, state->style, TABLE_PLAIN, line.data ? line.data : "");
  text_free(&line);
}

int report_text(FILE *out, const struct results *results, const struct report_options *options) {
  print_header(out, results, options);
  int err = results->num_phases > 0 ? report_phases(out, results, options) : 0;
  if (!err && results->num_transitions > 0)
    err = report_transitions(out, results, options);
  if (!err)
    report_stalls(out, results, options);
  if (!err)
    print_verdict(out, results, options);
  return err;
}
