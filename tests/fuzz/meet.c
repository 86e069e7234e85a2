// What a worker of a benchmark learns from a store that anybody writes into. An input is a list of steps, a line each:
//
//   p KEY VALUE   the watch reports a put       s RANK   this worker sees a sign of that rank's death
//   d KEY         it reports a deletion         l RANK   it finds that rank dead
//   a KEY VALUE   adds a key to the next list   r        everything was read, and this is the list
//
// A key is what follows the prefix. The id of this worker is "0123456789abcdef".
//
// After each step the first lost worker and the first difference are there if they are reported. At the end all texts
// end within their arrays, those that are shown have no control characters, and ends have what belongs to them.
#include "meet/state.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fuzz/support/fuzz.h"

enum { SIZE = 3, MAX_LISTED = 16 };

static char prefix[] = "weft/bench/default/", host[] = "here";

struct listed {
  struct weft_store_kv kvs[MAX_LISTED];
  struct weft_store_kv *pointers[MAX_LISTED];
  char *keys[MAX_LISTED], *values[MAX_LISTED];
  size_t count;
};

static struct meet *make(void) {
  static struct meet one; // large: to allocate it takes longer than all steps of an input
  struct meet *meet = &one;
  memset(meet, 0, sizeof *meet);
  pthread_mutex_init(&meet->lock, NULL);
  pthread_cond_init(&meet->changed, NULL);
  pthread_cond_init(&meet->work, NULL);
  meet->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  FUZZ_CHECK(meet->waker >= 0);
  meet->prefix = prefix;
  meet->host = host;
  meet->size = SIZE;
  meet->rank = meet->other = MEET_MAX_WORKERS;
  meet->settings = json_pack("{s:i, s:s}", "workers", SIZE, "backend", "SHM");
  FUZZ_CHECK(meet->settings);
  snprintf(meet->id, sizeof meet->id, "0123456789abcdef");
  return meet;
}

static void end(struct meet *meet) {
  for (uint32_t i = 0; i < MEET_MAX_WORKERS; i++)
    meet_worker_free(&meet->workers[i]);
  pthread_cond_destroy(&meet->changed);
  pthread_cond_destroy(&meet->work);
  pthread_mutex_destroy(&meet->lock);
  close(meet->waker);
  json_decref(meet->settings);
  free(meet->difference);
}

static bool ends(const char *text, size_t size) {
  return memchr(text, '\0', size) != NULL;
}

static bool is_line(const char *text) {
  for (; text && *text; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7F)
      return false;
  return true;
}

static void check_worker(const struct meet_worker *worker) {
  FUZZ_CHECK(ends(worker->id, sizeof worker->id) && ends(worker->meeting, sizeof worker->meeting));
  FUZZ_CHECK(ends(worker->address, sizeof worker->address) && ends(worker->place, sizeof worker->place));
  FUZZ_CHECK(is_line(worker->host) && is_line(worker->why));
  FUZZ_CHECK(worker->end <= MEET_FAILED && (worker->end != MEET_FAILED || worker->err < 0));
  FUZZ_CHECK(!worker->step_number[0] || worker->step_number[0] % 2 == 0);
  FUZZ_CHECK(!worker->step_number[1] || worker->step_number[1] % 2 == 1);
}

static void check(struct meet *meet) {
  char why[256];
  uint32_t rank = MEET_MAX_WORKERS;
  FUZZ_CHECK(meet->open_size <= MEET_MAX_WORKERS && ends(meet->open_id, sizeof meet->open_id));
  FUZZ_CHECK(meet->joined == (meet->rank < MEET_MAX_WORKERS) && (meet->joined || !meet->all_joined));
  if (meet->other != MEET_MAX_WORKERS)
    FUZZ_CHECK(meet->other < MEET_MAX_WORKERS && meet->difference && meet_settings_differ(meet) == WEFT_ERR_INVALID);
  if (!meet_lost(meet, &rank, why, sizeof why))
    return;
  FUZZ_CHECK(meet->joined && rank < MEET_MAX_WORKERS && rank != meet->rank && ends(why, sizeof why));
}

static char *key_of(const char *name) {
  char *key = malloc(sizeof prefix + strlen(name));
  FUZZ_CHECK(key);
  sprintf(key, "%s%s", prefix, name);
  return key;
}

// `text`: a name, and behind a blank a value. The value is no string, so that its reader has to go by its length.
static struct weft_store_kv take_apart(char *text, size_t size, int64_t revision, char **key, char **value) {
  char *blank = memchr(text, ' ', strlen(text));
  size_t name_size = blank ? (size_t)(blank - text) : strlen(text);
  size_t value_size = blank ? size - name_size - 1 : 0;
  text[name_size] = '\0';
  *key = key_of(text);
  *value = malloc(value_size ? value_size : 1);
  FUZZ_CHECK(*value);
  memcpy(*value, blank ? blank + 1 : "", value_size);
  return (struct weft_store_kv){.key = *key,
                                .value = *value,
                                .key_len = strlen(*key),
                                .value_len = value_size,
                                .create_revision = revision,
                                .mod_revision = revision,
                                .version = 1,
                                .lease = revision};
}

static void put(struct meet *meet, char *text, size_t size, int64_t revision) {
  char *key, *value;
  struct weft_store_kv kv = take_apart(text, size, revision, &key, &value);
  meet_state_put(meet, &kv);
  free(key);
  free(value);
}

static void add(struct listed *listed, char *text, size_t size, int64_t revision) {
  size_t i = listed->count;
  if (i == MAX_LISTED)
    return;
  listed->kvs[i] = take_apart(text, size, revision, &listed->keys[i], &listed->values[i]);
  listed->pointers[i] = &listed->kvs[i];
  listed->count++;
}

static void clear(struct listed *listed) {
  for (; listed->count > 0; listed->count--) {
    free(listed->keys[listed->count - 1]);
    free(listed->values[listed->count - 1]);
  }
}

static void read_list(struct meet *meet, struct listed *listed, int64_t revision) {
  const struct weft_store_list list = {
      .kvs = listed->pointers, .count = listed->count, .total = listed->count, .revision = revision};
  meet_state_read(meet, &list);
  clear(listed);
}

static void step(struct meet *meet, struct listed *listed, char *line, size_t size, int64_t revision) {
  if (size < 2 || line[1] != ' ') {
    if (line[0] == 'r')
      read_list(meet, listed, revision);
    return;
  }
  char *rest = line + 2;
  uint32_t rank = (uint32_t)strtoul(rest, NULL, 10) % MEET_MAX_WORKERS;
  if (line[0] == 'p') {
    put(meet, rest, size - 2, revision);
  } else if (line[0] == 'a') {
    add(listed, rest, size - 2, revision);
  } else if (line[0] == 's') {
    meet_state_suspect(meet, rank, "its process has ended");
  } else if (line[0] == 'l') {
    meet_state_lost(meet, rank);
  } else if (line[0] == 'd') {
    char *key = key_of(rest);
    meet_state_delete(meet, key);
    free(key);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct fuzz_input input = {(const char *)data, size};
  struct listed listed = {.count = 0};
  struct meet *meet = make();
  char *line;
  size_t length;
  for (int64_t revision = 1; (line = fuzz_line(&input, &length)) != NULL; revision++) {
    step(meet, &listed, line, length, revision);
    free(line);
    check(meet);
  }
  for (uint32_t i = 0; i < MEET_MAX_WORKERS; i++)
    check_worker(&meet->workers[i]);
  clear(&listed);
  end(meet);
  return 0;
}
