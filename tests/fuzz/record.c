// Messages between the processes of a run. The first line names the kind: "record", "settings" and "current" come
// before JSON from the store; "key" before the name of a key there; "task" before the data that a rank reads from its
// descriptor; "messages" before the data of its pipe. Accepted data is read unchanged, and can be written again.
#include "run/common/phase_record.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/support/fuzz.h"
#include "run/common/config_json.h"
#include "run/common/current.h"
#include "run/common/keys.h"
#include "run/common/rank_env.h"
#include "run/process/process.h"
#include "secure/secret.h"

enum { FILL = 0xA5, PIPE_BYTES = 65536 };

static json_int_t integer(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  FUZZ_CHECK(json_is_integer(value));
  return json_integer_value(value);
}

static void check_lists(const struct run_record *record, const json_t *json) {
  const json_t *views = json_object_get(json, "views"), *losses = json_object_get(json, "losses");
  FUZZ_CHECK(json_array_size(views) == record->num_views && json_array_size(losses) == record->num_losses);
  for (uint32_t i = 0; i < record->num_views; i++) {
    const json_t *ranks = json_object_get(json_array_get(views, i), "ranks");
    FUZZ_CHECK(json_array_size(ranks) == record->views[i].count);
    for (uint32_t j = 0; j < record->views[i].count; j++)
      FUZZ_CHECK(json_is_integer(json_array_get(ranks, j)) &&
                 json_integer_value(json_array_get(ranks, j)) == record->views[i].ranks[j]);
  }
  for (uint32_t i = 0; i < record->num_losses; i++) {
    const json_t *loss = json_array_get(losses, i);
    FUZZ_CHECK(integer(loss, "rank") == record->losses[i].rank);
    FUZZ_CHECK(strcmp(json_string_value(json_object_get(loss, "detail")), record->losses[i].detail) == 0);
  }
}

static void read_record(const json_t *json) {
  struct run_record record, again;
  memset(&record, FILL, sizeof record);
  if (run_record_from_json(&record, json) != 0) {
    FUZZ_CHECK(fuzz_untouched(&record, FILL, sizeof record));
    return;
  }
  FUZZ_CHECK(integer(json, "rank") == record.rank.rank && integer(json, "local_rank") == record.rank.local_rank);
  check_lists(&record, json);
  json_t *written = run_record_to_json(&record);
  FUZZ_CHECK(written && run_record_from_json(&again, written) == 0);
  json_t *written_again = run_record_to_json(&again);
  FUZZ_CHECK(json_equal(written, written_again));
  json_decref(written);
  json_decref(written_again);
  run_record_free(&record);
  run_record_free(&again);
}

static void read_current(const json_t *json) {
  struct run_current current = {0};
  if (run_current_from_json(&current, json) != 0) {
    FUZZ_CHECK(current.phase == 0 && current.num_lost == 0 && current.lost == NULL);
    return;
  }
  json_t *written = run_current_to_json(&current);
  const json_t *lost = json_object_get(json, "lost"), *again = json_object_get(written, "lost");
  FUZZ_CHECK(integer(json, "phase") == integer(written, "phase") && json_array_size(lost) == json_array_size(again));
  for (size_t i = 0; i < json_array_size(lost); i++)
    FUZZ_CHECK(integer(json_array_get(lost, i), "rank") == integer(json_array_get(again, i), "rank") &&
               integer(json_array_get(lost, i), "phase") == integer(json_array_get(again, i), "phase"));
  json_decref(written);
  run_current_free(&current);
}

static void read_settings(const json_t *json) {
  struct run_config config;
  memset(&config, FILL, sizeof config);
  if (run_settings_from_json(&config, json) != 0) {
    FUZZ_CHECK(fuzz_untouched(&config, FILL, sizeof config));
    return;
  }
  json_t *written = run_settings_to_json(&config);
  const char *seed = json_string_value(json_object_get(json, "seed"));
  seed += strspn(seed, "0");
  FUZZ_CHECK(written && strcmp(*seed ? seed : "0", json_string_value(json_object_get(written, "seed"))) == 0);
  const char *name;
  json_t *value;
  json_object_foreach(written, name, value) {
    FUZZ_CHECK(strcmp(name, "seed") == 0 || json_equal(value, json_object_get(json, name)));
  }
  json_decref(written);
}

// The way that a task takes to a rank: it is taken or refused like its text, and nothing stays open.
static void receive_task(const char *text, bool is_right) {
  struct run_task task;
  json_t *owner = NULL;
  char number[16];
  int fd = -1;
  FUZZ_CHECK(secret_to_descriptor(text, &fd) == 0);
  snprintf(number, sizeof number, "%d", fd);
  setenv(RUN_TASK_VARIABLE, number, 1);
  FUZZ_CHECK((run_task_receive(&task, &owner) == 0) == is_right);
  FUZZ_CHECK(fcntl(fd, F_GETFD) < 0 && !getenv(RUN_TASK_VARIABLE) && !owner == !is_right);
  run_task_free(owner);
}

static void read_task(const char *text) {
  struct run_task task, task_again;
  json_t *owner = NULL, *owner_again = NULL;
  memset(&task, FILL, sizeof task);
  if (run_task_from_text(&task, text, &owner) != 0) {
    FUZZ_CHECK(!owner && fuzz_untouched(&task, FILL, sizeof task));
    receive_task(text, false);
    return;
  }
  receive_task(text, true);
  char *written = run_task_to_text(&task);
  FUZZ_CHECK(written && run_task_from_text(&task_again, written, &owner_again) == 0);
  char *written_again = run_task_to_text(&task_again);
  FUZZ_CHECK(strcmp(written, written_again) == 0);
  free(written);
  free(written_again);
  json_decref(owner);
  json_decref(owner_again);
}

static void count_message(void *arg, struct run_child *child, json_t *json) {
  FUZZ_CHECK(child->line_size <= sizeof child->line && (json_is_object(json) || json_is_array(json)));
  ++*(size_t *)arg;
}

static void read_messages(const struct fuzz_input *input) {
  int ends[2];
  size_t messages = 0, lines = 0, size = input->size < PIPE_BYTES ? input->size : PIPE_BYTES;
  for (size_t i = 0; i < size; i++)
    lines += input->data[i] == '\n';
  FUZZ_CHECK(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  FUZZ_CHECK(write(ends[1], input->data, size) == (ssize_t)size);
  close(ends[1]);
  struct run_child child = {.message_fd = ends[0]};
  run_child_read(&child, count_message, &messages);
  FUZZ_CHECK(child.message_fd == -1 && messages <= lines);
}

// Two numbers that are read of a key are those that make it.
static void read_key(const char *key) {
  struct run_keys keys;
  uint32_t first = 0, second = 0;
  char made[RUN_KEY_SIZE];
  run_keys_init(&keys, "j", "r");
  if (!run_key_pair(&keys, key, "launch", &first, &second))
    return;
  run_key(made, &keys, "launch/%u/%u", first, second);
  FUZZ_CHECK(strcmp(made, key) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  char *what = fuzz_line(&input, NULL);
  if (!what)
    return 0;
  char *text = strndup(input.data, input.size);
  json_t *json = json_loadb(input.data, input.size, JSON_DECODE_ANY, NULL);
  if (*what == 'm')
    read_messages(&input);
  else if (*what == 'k')
    read_key(text);
  else if (*what == 't')
    read_task(text);
  else if (*what == 'c' && json)
    read_current(json);
  else if (*what == 's' && json)
    read_settings(json);
  else if (json)
    read_record(json);
  json_decref(json);
  free(text);
  free(what);
  return 0;
}
