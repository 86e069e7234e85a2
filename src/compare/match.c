// Matches rows by their keys.
#include "compare/match.h"

#include <stdlib.h>
#include <string.h>

#include <weft/err.h>

#include "base/fail.h"
#include "base/text/text.h"

void match_free(struct match *match) {
  for (size_t i = 0; i < match->num_pairs; i++)
    json_decref(match->pairs[i].keys);
  free(match->pairs);
  json_decref(match->only_in);
  json_decref(match->dropped);
  *match = (struct match){0};
}

static bool is_ignored(const struct match_options *options, const char *key) {
  for (size_t i = 0; i < options->num_ignored; i++)
    if (strcmp(options->ignored[i], key) == 0)
      return true;
  return false;
}

// All keys of the run's rows, as members of an object.
static json_t *known_keys(const struct compare_run *run, const struct match_options *options) {
  json_t *known = json_object(), *value;
  const char *key;
  for (size_t i = 0; known && i < run->num_rows; i++)
    json_object_foreach(run->rows[i].keys, key, value) {
      if (!is_ignored(options, key) && !json_object_get(known, key))
        json_object_set_new(known, key, json_true());
    }
  return known;
}

// The keys of the row that `counts` has, too.
static json_t *keys_that_count(const struct compare_row *row, const json_t *counts) {
  json_t *keys = json_object(), *value;
  const char *key;
  json_object_foreach(row->keys, key, value) {
    if (json_object_get(counts, key))
      json_object_set(keys, key, value);
  }
  return keys;
}

static char *identity(const struct compare_row *row, const json_t *counts) {
  json_t *keys = keys_that_count(row, counts);
  char *text = keys ? compare_keys_text(keys) : NULL;
  json_decref(keys);
  return text;
}

static void add_value(struct text *text, const char *key, const json_t *value) {
  char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  const char *shown = json_is_string(value) ? json_string_value(value) : dump ? dump : "?";
  text_add(text, "%s%s=%s", text->size ? ", " : "", key, shown);
  free(dump);
}

// Adds the keys in which two rows with the same identity differ.
static void differences(struct text *text, const struct compare_row *a, const struct compare_row *b) {
  const char *key;
  json_t *value;
  json_object_foreach(a->keys, key, value) {
    if (!json_equal(value, json_object_get(b->keys, key)))
      add_value(text, key, value);
  }
}

static int ambiguous(const struct compare_run *run, const struct compare_run *other, const struct compare_row *a,
                     const struct compare_row *b) {
  struct text first = {0}, second = {0};
  differences(&first, a, b);
  differences(&second, b, a);
  int err = fail(WEFT_ERR_INVALID,
                 "%s has several rows for one row of %s, because they differ only in %s and in %s: choose one of these "
                 "with --only KEY=VALUE",
                 run->label, other->label, first.size ? first.data : "nothing", second.size ? second.data : "nothing");
  text_free(&first);
  text_free(&second);
  return err;
}

// Maps each identity to the place of its first row, and of its second one.
struct places {
  json_t *first, *second;
};

static void free_places(struct places *places) {
  json_decref(places->first);
  json_decref(places->second);
}

static int index_rows(const struct compare_run *run, const json_t *counts, struct places *places) {
  *places = (struct places){json_object(), json_object()};
  bool whole = places->first && places->second;
  for (size_t i = 0; whole && i < run->num_rows; i++) {
    char *text = identity(&run->rows[i], counts);
    json_t *to = text && json_object_get(places->first, text) ? places->second : places->first;
    whole = text && json_object_set_new(to, text, json_integer((json_int_t)i)) == 0;
    free(text);
  }
  return whole ? 0 : fail(WEFT_ERR_NOMEM, "no memory to match rows");
}

static void note_only(struct match *match, const struct compare_run *run, const struct compare_row *row) {
  json_array_append_new(match->only_in, json_pack("{s:s, s:O}", "run", run->label, "keys", row->keys));
}

static void describe_row(struct text *text, const struct compare_row *row) {
  const char *key;
  json_t *value;
  json_object_foreach(row->keys, key, value) add_value(text, key, value);
}

// The keys used for matching in which the two rows differ, as an array of names.
static json_t *differing_keys(const struct compare_row *a, const struct compare_row *b, const json_t *counts) {
  json_t *names = json_array(), *one;
  const char *key;
  json_object_foreach((json_t *)counts, key, one) {
    const json_t *left = json_object_get(a->keys, key), *right = json_object_get(b->keys, key);
    if (left != right && !json_equal(left, right))
      json_array_append_new(names, json_string(key));
  }
  return names;
}

// The keys in which the most similar rows differ, so that they would have to be ignored. NULL: no rows are similar
// enough.
static json_t *keys_in_the_way(const struct compare_run *a, const struct compare_run *b, const json_t *counts) {
  enum { MOST_ROWS = 1000, MOST_KEYS = 3 };
  json_t *fewest = NULL;
  for (size_t i = 0; a->num_rows > 0 && i < b->num_rows && i < MOST_ROWS; i++) {
    json_t *names = differing_keys(&a->rows[0], &b->rows[i], counts);
    bool fewer = names && json_array_size(names) < (fewest ? json_array_size(fewest) : MOST_KEYS + 1);
    json_decref(fewer ? fewest : names);
    fewest = fewer ? names : fewest;
  }
  return fewest;
}

static void advise(struct text *text, const json_t *keys) {
  size_t count = json_array_size(keys), i;
  json_t *key;
  text_add(text, count > 0 ? "they differ in " : "want runs that measured the same");
  json_array_foreach(keys, i, key) text_add(text, "%s\"%.48s\"",
                                            i == 0          ? ""
                                            : i + 1 < count ? ", "
                                                            : " and ",
                                            json_string_value(key));
  json_array_foreach(keys, i, key) text_add(text, "%s --ignore %.48s", i == 0 ? ":" : "", json_string_value(key));
  if (count > 0)
    text_add(text, " compare%s them even so", count == 1 ? "s" : "");
}

static int nothing_in_common(const struct compare_run *a, const struct compare_run *b, const json_t *counts) {
  struct text left = {0}, right = {0}, advice = {0};
  json_t *keys = keys_in_the_way(a, b, counts);
  if (a->num_rows > 0)
    describe_row(&left, &a->rows[0]);
  if (b->num_rows > 0)
    describe_row(&right, &b->rows[0]);
  advise(&advice, keys);
  json_decref(keys);
  int err =
      fail(WEFT_ERR_INVALID,
           "%s (%s, %zu row%s, such as %.300s) and %s (%s, %zu row%s, such as %.300s) have no row in common: %s",
           a->label, a->format, a->num_rows, text_s(a->num_rows), left.size ? left.data : "none", b->label, b->format,
           b->num_rows, text_s(b->num_rows), right.size ? right.data : "none", advice.data ? advice.data : "");
  text_free(&left);
  text_free(&right);
  text_free(&advice);
  return err;
}

// Merges the keys of a pair: the common ones, and those that only one of them has.
static json_t *merged_keys(const struct compare_row *a, const struct compare_row *b, const json_t *counts,
                           const struct match_options *options) {
  json_t *keys = json_object(), *value;
  const char *key;
  json_object_foreach(a->keys, key, value) {
    bool differs = json_object_get(b->keys, key) && !json_equal(value, json_object_get(b->keys, key));
    if (json_object_get(counts, key) || (!differs && !is_ignored(options, key)))
      json_object_set(keys, key, value);
  }
  json_object_foreach(b->keys, key, value) {
    if (!json_object_get(a->keys, key) && !is_ignored(options, key))
      json_object_set(keys, key, value);
  }
  return keys;
}

// Checks that only one row in each run has that identity.
static int check_single(const struct compare_run *a, const struct compare_run *b, const struct places *left,
                        const struct places *right, const char *text) {
  const json_t *second = json_object_get(left->second, text), *other = json_object_get(right->second, text);
  if (second)
    return ambiguous(a, b, &a->rows[json_integer_value(json_object_get(left->first, text))],
                     &a->rows[json_integer_value(second)]);
  if (other)
    return ambiguous(b, a, &b->rows[json_integer_value(json_object_get(right->first, text))],
                     &b->rows[json_integer_value(other)]);
  return 0;
}

static int pair_up(struct match *match, const struct compare_run *a, const struct compare_run *b, const json_t *counts,
                   const struct places *left, const struct places *right, const struct match_options *options) {
  bool *met = calloc(b->num_rows + 1, sizeof *met);
  match->pairs = calloc(a->num_rows + 1, sizeof *match->pairs);
  match->only_in = json_array();
  int err = met && match->pairs && match->only_in ? 0 : fail(WEFT_ERR_NOMEM, "no memory to match rows");
  for (size_t i = 0; !err && i < a->num_rows; i++) {
    char *text = identity(&a->rows[i], counts);
    const json_t *there = text ? json_object_get(right->first, text) : NULL;
    if (there) {
      err = check_single(a, b, left, right, text);
      struct match_pair *pair = &match->pairs[match->num_pairs++];
      pair->baseline = &a->rows[i];
      pair->value = &b->rows[json_integer_value(there)];
      pair->keys = merged_keys(pair->baseline, pair->value, counts, options);
      met[json_integer_value(there)] = true;
    } else {
      note_only(match, a, &a->rows[i]);
    }
    free(text);
  }
  for (size_t i = 0; !err && i < b->num_rows; i++)
    if (!met[i])
      note_only(match, b, &b->rows[i]);
  free(met);
  return err || match->num_pairs > 0 ? err : nothing_in_common(a, b, counts);
}

// Moves the keys of `own` that `other` does not have to `dropped`, and the others to `counts`.
static void sort_keys(json_t *own, json_t *other, json_t *counts, json_t *dropped) {
  const char *key;
  json_t *value;
  json_object_foreach(own, key, value) {
    if (json_object_get(other, key))
      json_object_set(counts, key, value);
    else
      json_array_append_new(dropped, json_string(key));
  }
}

int match_runs(const struct compare_run *baseline, const struct compare_run *value, const struct match_options *options,
               struct match *match) {
  struct match made = {.dropped = json_array()};
  json_t *a = known_keys(baseline, options), *b = known_keys(value, options), *counts = json_object();
  struct places left = {0}, right = {0};
  int err = a && b && counts && made.dropped ? 0 : fail(WEFT_ERR_NOMEM, "no memory to match rows");
  if (!err) {
    sort_keys(a, b, counts, made.dropped);
    sort_keys(b, a, counts, made.dropped);
    err = index_rows(baseline, counts, &left);
  }
  if (!err)
    err = index_rows(value, counts, &right);
  if (!err)
    err = pair_up(&made, baseline, value, counts, &left, &right, options);
  json_decref(a);
  json_decref(b);
  json_decref(counts);
  free_places(&left);
  free_places(&right);
  if (err)
    match_free(&made);
  else
    *match = made;
  return err;
}
