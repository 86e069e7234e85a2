// Converts a rank's record of one phase to JSON and back.
#include "run/common/phase_record.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/ep_limits.h"
#include "base/fail.h"
#include "base/printable.h"

// The kinds of fields in the table that both directions use.
enum kind { KIND_U64, KIND_I32, KIND_DOUBLE, KIND_TIMES, KIND_TEXT, KIND_STATE };

struct field {
  const char *name;
  size_t offset;
  enum kind kind;
  size_t size; // of a KIND_TEXT
};

#define FIELD(kind, name, member)                                                                                      \
  { name, offsetof(struct run_record, member), kind, 0 }
#define TEXT(name, member)                                                                                             \
  { name, offsetof(struct run_record, member), KIND_TEXT, sizeof(((struct run_record *)0)->member) }

static const struct field fields[] = {
    FIELD(KIND_I32, "rank", rank.rank),
    FIELD(KIND_I32, "local_rank", rank.local_rank),
    FIELD(KIND_I32, "gpu", rank.gpu),
    TEXT("gpu_name", rank.gpu_name),
    TEXT("host", rank.host),
    TEXT("boot", boot),
    FIELD(KIND_U64, "incarnation", rank.incarnation),
    FIELD(KIND_STATE, "state", rank.state),
    TEXT("reason", rank.reason),
    FIELD(KIND_U64, "checked", rank.checked),
    FIELD(KIND_U64, "first_op", joining.op),
    FIELD(KIND_U64, "offer_ns", joining.offer_ns),
    FIELD(KIND_U64, "fixed_ns", joining.fixed_ns),
    FIELD(KIND_U64, "dispatch_ns", joining.dispatch_ns),
    FIELD(KIND_U64, "dispatched_ns", joining.dispatched_ns),
    FIELD(KIND_U64, "combine_ns", joining.combine_ns),
    FIELD(KIND_U64, "num_lost_selections", rank.num_lost_selections),
    FIELD(KIND_DOUBLE, "worst_diff", rank.worst_diff),
    FIELD(KIND_TIMES, "both", rank.both),
    FIELD(KIND_TIMES, "dispatch", rank.dispatch),
    FIELD(KIND_TIMES, "combine", rank.combine),
    FIELD(KIND_DOUBLE, "dispatch_logical_bytes", rank.dispatch_logical_bytes),
    FIELD(KIND_DOUBLE, "dispatch_wire_bytes", rank.dispatch_wire_bytes),
    FIELD(KIND_DOUBLE, "combine_logical_bytes", rank.combine_logical_bytes),
    FIELD(KIND_DOUBLE, "combine_wire_bytes", rank.combine_wire_bytes),
    FIELD(KIND_U64, "window_bytes", rank.window_bytes),
    FIELD(KIND_DOUBLE, "launch_us", launch_us),
    FIELD(KIND_DOUBLE, "connect_us", connect_us),
    FIELD(KIND_DOUBLE, "first_dispatch_us", first_dispatch_us),
    FIELD(KIND_DOUBLE, "stall_us", stall_us),
    FIELD(KIND_DOUBLE, "median_us", median_us),
    FIELD(KIND_I32, "losses_known", losses_known),
    FIELD(KIND_U64, "learned_ns", learned_ns),
};

enum { NUM_FIELDS = sizeof fields / sizeof fields[0] };

static const char *const states[] = {
    [RESULTS_NOT_MEMBER] = "not a member", [RESULTS_PASSED] = "passed", [RESULTS_FAILED] = "failed",
    [RESULTS_KILLED] = "killed",           [RESULTS_LEFT] = "left",     [RESULTS_UNREACHED] = "unreached",
    [RESULTS_INTERRUPTED] = "interrupted", [RESULTS_LOST] = "lost",
};

enum { NUM_STATES = sizeof states / sizeof states[0] };

void run_record_free(struct run_record *record) {
  for (uint32_t i = 0; i < record->num_views; i++)
    free(record->views[i].ranks);
  free(record->views);
  free(record->losses);
  free(record->rank.dispatch_rows);
  record->rank.dispatch_rows = NULL;
  record->rank.num_dispatch_rows = 0;
  record->views = NULL;
  record->losses = NULL;
  record->num_views = record->num_losses = 0;
}

int run_record_add_view(struct run_record *record, const struct run_view *view) {
  struct run_view *views = realloc(record->views, (record->num_views + 1) * sizeof *views);
  if (!views)
    return fail(WEFT_ERR_NOMEM, "no memory for a record of %u views", record->num_views + 1);
  record->views = views;
  struct run_view copy = *view;
  copy.ranks = malloc((view->count ? view->count : 1) * sizeof *copy.ranks);
  if (!copy.ranks)
    return fail(WEFT_ERR_NOMEM, "no memory for a view of %u ranks", view->count);
  memcpy(copy.ranks, view->ranks, view->count * sizeof *copy.ranks);
  views[record->num_views++] = copy;
  return 0;
}

int run_record_add_loss(struct run_record *record, const struct run_loss *loss) {
  struct run_loss *losses = realloc(record->losses, (record->num_losses + 1) * sizeof *losses);
  if (!losses)
    return fail(WEFT_ERR_NOMEM, "no memory for a record of %u losses", record->num_losses + 1);
  record->losses = losses;
  losses[record->num_losses++] = *loss;
  return 0;
}

static json_t *times_to_json(const struct results_times *times) {
  return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)times->count, "avg", times->avg, "min",
                   times->min, "p50", times->p50, "p99", times->p99, "max", times->max);
}

static json_t *field_to_json(const struct field *field, const void *at) {
  switch (field->kind) {
  case KIND_U64:
    return json_sprintf("%016" PRIx64, *(const uint64_t *)at);
  case KIND_I32:
    return json_integer(*(const int32_t *)at);
  case KIND_DOUBLE:
    return json_real(*(const double *)at);
  case KIND_TIMES:
    return times_to_json(at);
  case KIND_TEXT:
    return json_string(at);
  case KIND_STATE:
    return json_string(states[*(const enum results_state *)at]);
  }
  return NULL;
}

static json_t *stalls_to_json(const struct run_stall *stalls, uint32_t count) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < count; i++)
    json_array_append_new(list, json_pack("[I, I, I]", (json_int_t)stalls[i].op, (json_int_t)stalls[i].begin_ns,
                                          (json_int_t)stalls[i].ns));
  return list;
}

static json_t *view_to_json(const struct run_view *view) {
  json_t *ranks = json_array();
  for (uint32_t i = 0; i < view->count; i++)
    json_array_append_new(ranks, json_integer(view->ranks[i]));
  return json_pack("{s:I, s:I, s:I, s:o}", "epoch", (json_int_t)view->epoch, "op", (json_int_t)view->op, "time_ns",
                   (json_int_t)view->time_ns, "ranks", ranks);
}

static json_t *rows_to_json(const struct results_rank *rank) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < rank->num_dispatch_rows; i++)
    json_array_append_new(list, json_integer((json_int_t)rank->dispatch_rows[i]));
  return list;
}

static void push(struct run_stall *stalls, uint32_t *count, uint32_t cap, const struct run_stall *stall) {
  if (*count == cap)
    memmove(stalls, stalls + 1, (size_t)-- * count * sizeof *stalls);
  stalls[(*count)++] = *stall;
}

void run_record_note_stall(struct run_record *record, const struct run_stall *stall, bool turn) {
  double us = (double)stall->ns / 1000;
  if (us > record->stall_us)
    record->stall_us = us;
  if (turn) {
    push(record->turns, &record->num_turns, RUN_MAX_TURNS, stall);
    return;
  }
  while (record->num_stalls > 0 && record->stalls[record->num_stalls - 1].ns <= stall->ns)
    record->num_stalls--;
  push(record->stalls, &record->num_stalls, RUN_MAX_STALLS, stall);
}

json_t *run_record_to_json(const struct run_record *record) {
  json_t *json = json_object(), *views = json_array(), *losses = json_array();
  int failed = 0;
  for (size_t i = 0; i < NUM_FIELDS; i++)
    failed |=
        json_object_set_new(json, fields[i].name, field_to_json(&fields[i], (const char *)record + fields[i].offset));
  for (uint32_t i = 0; i < record->num_views; i++)
    failed |= json_array_append_new(views, view_to_json(&record->views[i]));
  for (uint32_t i = 0; i < record->num_losses; i++) {
    const struct run_loss *loss = &record->losses[i];
    failed |= json_array_append_new(losses, json_pack("{s:i, s:I, s:s}", "rank", loss->rank, "time_ns",
                                                      (json_int_t)loss->time_ns, "detail", loss->detail));
  }
  failed |= json_object_set_new(json, "stalls", stalls_to_json(record->stalls, record->num_stalls));
  failed |= json_object_set_new(json, "turns", stalls_to_json(record->turns, record->num_turns));
  failed |= json_object_set_new(json, "dispatch_rows", rows_to_json(&record->rank));
  failed |= json_object_set_new(json, "views", views);
  failed |= json_object_set_new(json, "losses", losses);
  if (failed) {
    json_decref(json);
    return NULL;
  }
  return json;
}

static int wrong(const char *name) {
  return fail(WEFT_ERR_PROTOCOL, "record of a rank: '%s' is missing or malformed", name);
}

static int times_from_json(struct results_times *times, const json_t *json) {
  json_int_t count = 0;
  if (json_unpack((json_t *)json, "{s:I, s:F, s:F, s:F, s:F, s:F}", "count", &count, "avg", &times->avg, "min",
                  &times->min, "p50", &times->p50, "p99", &times->p99, "max", &times->max) ||
      count < 0)
    return -1;
  times->count = (uint64_t)count;
  return 0;
}

static int u64_from_json(uint64_t *value, const json_t *json) {
  const char *text = json_string_value(json);
  if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
    return -1;
  *value = strtoull(text, NULL, 16);
  return 0;
}

static int i32_from_json(int32_t *value, const json_t *json) {
  json_int_t number = json_integer_value(json);
  if (!json_is_integer(json) || number < INT32_MIN || number > INT32_MAX)
    return -1;
  *value = (int32_t)number;
  return 0;
}

static int state_from_json(enum results_state *state, const json_t *json) {
  const char *text = json_string_value(json);
  for (int i = 0; text && i < NUM_STATES; i++) {
    if (strcmp(text, states[i]) == 0) {
      *state = (enum results_state)i;
      return 0;
    }
  }
  return -1;
}

static int field_from_json(const struct field *field, void *at, const json_t *json) {
  switch (field->kind) {
  case KIND_U64:
    return u64_from_json(at, json);
  case KIND_I32:
    return i32_from_json(at, json);
  case KIND_DOUBLE:
    *(double *)at = json_number_value(json);
    return json_is_number(json) ? 0 : -1;
  case KIND_TIMES:
    return times_from_json(at, json);
  case KIND_TEXT:
    if (!json_is_string(json) || json_string_length(json) >= field->size)
      return -1;
    memcpy(at, json_string_value(json), json_string_length(json) + 1);
    printable_text(at);
    return 0;
  case KIND_STATE:
    return state_from_json(at, json);
  }
  return -1;
}

static int view_from_json(struct run_record *record, const json_t *json) {
  json_int_t epoch = 0, op = 0, time_ns = 0;
  json_t *ranks = NULL;
  if (json_unpack((json_t *)json, "{s:I, s:I, s:I, s:o}", "epoch", &epoch, "op", &op, "time_ns", &time_ns, "ranks",
                  &ranks) ||
      !json_is_array(ranks) || epoch < 0 || op < 0 || time_ns < 0)
    return wrong("views");
  struct run_view view = {(uint64_t)epoch, (uint64_t)op, (uint64_t)time_ns, (uint32_t)json_array_size(ranks), NULL};
  view.ranks = malloc((view.count + 1) * sizeof *view.ranks);
  if (!view.ranks)
    return fail(WEFT_ERR_NOMEM, "no memory for a view of %u ranks", view.count);
  int err = 0;
  for (uint32_t i = 0; i < view.count && !err; i++)
    if (i32_from_json(&view.ranks[i], json_array_get(ranks, i)))
      err = wrong("views");
  if (!err)
    err = run_record_add_view(record, &view);
  free(view.ranks);
  return err;
}

static int loss_from_json(struct run_record *record, const json_t *json) {
  struct run_loss loss = {0};
  json_int_t time_ns = 0;
  const char *detail = NULL;
  if (json_unpack((json_t *)json, "{s:I, s:s}", "time_ns", &time_ns, "detail", &detail) || time_ns < 0 ||
      i32_from_json(&loss.rank, json_object_get(json, "rank")) || strlen(detail) >= sizeof loss.detail)
    return wrong("losses");
  loss.time_ns = (uint64_t)time_ns;
  memcpy(loss.detail, detail, strlen(detail) + 1);
  return run_record_add_loss(record, &loss);
}

static int rows_from_json(struct results_rank *rank, const json_t *list) {
  size_t count = json_array_size(list);
  if (!json_is_array(list) || count > EP_MAX_CAPACITY)
    return wrong("dispatch_rows");
  rank->dispatch_rows = count > 0 ? calloc(count, sizeof *rank->dispatch_rows) : NULL;
  if (count > 0 && !rank->dispatch_rows)
    return fail(WEFT_ERR_NOMEM, "no memory for a record of %zu ranks", count);
  for (size_t i = 0; i < count; i++) {
    const json_t *rows = json_array_get(list, i);
    if (!json_is_integer(rows) || json_integer_value(rows) < 0)
      return wrong("dispatch_rows");
    rank->dispatch_rows[i] = (uint64_t)json_integer_value(rows);
  }
  rank->num_dispatch_rows = (uint32_t)count;
  return 0;
}

static int stalls_from_json(const char *name, const json_t *list, struct run_stall *stalls, uint32_t cap,
                            uint32_t *count) {
  size_t i;
  const json_t *item;
  if (!json_is_array(list) || json_array_size(list) > cap)
    return wrong(name);
  json_array_foreach(list, i, item) {
    json_int_t op = -1, begin = -1, ns = -1;
    if (json_unpack((json_t *)item, "[I, I, I!]", &op, &begin, &ns) || op < 0 || begin < 0 || ns < 0)
      return wrong(name);
    stalls[i] = (struct run_stall){(uint64_t)op, (uint64_t)begin, (uint64_t)ns};
  }
  *count = (uint32_t)json_array_size(list);
  return 0;
}

static int all_stalls_from_json(struct run_record *record, const json_t *json) {
  int err =
      stalls_from_json("stalls", json_object_get(json, "stalls"), record->stalls, RUN_MAX_STALLS, &record->num_stalls);
  return err ? err
             : stalls_from_json("turns", json_object_get(json, "turns"), record->turns, RUN_MAX_TURNS,
                                &record->num_turns);
}

int run_record_from_json(struct run_record *record, const json_t *json) {
  struct run_record read = {0};
  int err = 0;
  for (size_t i = 0; i < NUM_FIELDS; i++)
    if (field_from_json(&fields[i], (char *)&read + fields[i].offset, json_object_get(json, fields[i].name)))
      return wrong(fields[i].name);
  size_t i;
  const json_t *item, *views = json_object_get(json, "views"), *losses = json_object_get(json, "losses");
  if (!json_is_array(views) || !json_is_array(losses))
    return wrong(json_is_array(views) ? "losses" : "views");
  err = all_stalls_from_json(&read, json);
  if (!err)
    err = rows_from_json(&read.rank, json_object_get(json, "dispatch_rows"));
  json_array_foreach(views, i, item) {
    if (!err)
      err = view_from_json(&read, item);
  }
  json_array_foreach(losses, i, item) {
    if (!err)
      err = loss_from_json(&read, item);
  }
  if (err) {
    run_record_free(&read);
    return err;
  }
  *record = read;
  return 0;
}
