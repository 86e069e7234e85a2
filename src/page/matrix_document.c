// For each phase of an elastic run, the number of rows that each rank sent to each other. They are encoded as short
// texts, since 200 phases of 64 ranks have 800,000 numbers.
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "page/documents.h"

// Characters of a text: printable ASCII without those that JSON or HTML escapes.
enum { CHARACTERS = 90, FINAL = 74, MORE = CHARACTERS - FINAL };

static void make_alphabet(char alphabet[CHARACTERS + 1]) {
  size_t used = 0;
  for (char c = ' '; c <= '~'; c++)
    if (!strchr("\"\\<>&", c))
      alphabet[used++] = c;
  alphabet[used] = '\0';
}

// A number below FINAL is one character; a larger one has other characters before it, with 4 bits each.
static void add_number(struct text *text, const char *alphabet, uint64_t number) {
  while (number >= FINAL) {
    number -= FINAL;
    text_add_bytes(text, &alphabet[FINAL + number % MORE], 1);
    number /= MORE;
  }
  text_add_bytes(text, &alphabet[number], 1);
}

// Writes the least count that is not 0; then for each count 0 if it is 0, else its difference from the least one, plus
// 1. The numbers are small, since counts are similar.
static void add_counts(struct text *text, const char *alphabet, const uint64_t *counts, uint32_t num_counts) {
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < num_counts; i++)
    least = counts[i] > 0 && counts[i] < least ? counts[i] : least;
  least = least == UINT64_MAX ? 0 : least;
  add_number(text, alphabet, least);
  for (uint32_t i = 0; i < num_counts; i++)
    add_number(text, alphabet, counts[i] > 0 ? counts[i] - least + 1 : 0);
}

static json_t *matrix_of(const struct results_phase *phase, uint32_t place, const char *alphabet, size_t *size) {
  json_t *senders = json_array(), *rows = json_array();
  bool failed = false;
  for (uint32_t i = 0; i < phase->num_ranks; i++) {
    const struct results_rank *rank = &phase->ranks[i];
    struct text text = {0};
    if (rank->num_dispatch_rows != phase->num_ranks || rank->num_dispatch_rows == 0)
      continue;
    add_counts(&text, alphabet, rank->dispatch_rows, rank->num_dispatch_rows);
    failed |= text.failed || json_array_append_new(senders, json_integer(i)) ||
              json_array_append_new(rows, json_stringn(text.data, text.size));
    *size += text.size + 8;
    text_free(&text);
  }
  json_t *matrix = json_pack("{s:i, s:o, s:o}", "phase", (int)place, "senders", senders, "rows", rows);
  if (!failed)
    return matrix;
  json_decref(matrix);
  return NULL;
}

static bool is_measured(const struct results_phase *phase) {
  for (uint32_t i = 0; i < phase->num_ranks; i++)
    if (phase->ranks[i].num_dispatch_rows > 0)
      return true;
  return false;
}

// Keeps every n-th element, counted from the last one.
static json_t *thin(const json_t *list, size_t step) {
  json_t *kept = json_array();
  size_t count = json_array_size(list);
  for (size_t i = 0; i < count; i++)
    if ((count - 1 - i) % step == 0)
      json_array_append(kept, json_array_get(list, i));
  return kept;
}

json_t *page_matrices(const struct results *results) {
  char alphabet[CHARACTERS + 1];
  make_alphabet(alphabet);
  json_t *list = json_array();
  size_t size = 0;
  for (uint32_t p = 0; p < results->num_phases; p++)
    if (is_measured(&results->phases[p]) &&
        json_array_append_new(list, matrix_of(&results->phases[p], p, alphabet, &size))) {
      json_decref(list);
      return NULL;
    }
  size_t measured = json_array_size(list), step = (size + PAGE_MATRICES_SIZE - 1) / PAGE_MATRICES_SIZE;
  json_t *kept = thin(list, step > 0 ? step : 1);
  json_decref(list);
  return json_pack("{s:s, s:i, s:i, s:o}", "alphabet", alphabet, "final", FINAL, "measured", (int)measured, "matrices",
                   kept);
}
