// Applies events of the store: claims, the open meeting, steps, and how workers ended.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/printable.h"
#include "meet/state.h"

// A key without the prefix, taken apart.
struct key {
  enum { OTHER, MEETING, WORKER, STEP, END } kind;
  char meeting[MEET_ID_SIZE];
  uint32_t rank, step;
};

static bool read_number(const char **at, uint32_t *out) {
  size_t digits = strspn(*at, "0123456789");
  if (digits == 0 || digits > 9)
    return false;
  *out = (uint32_t)strtoul(*at, NULL, 10);
  *at += digits;
  return true;
}

static bool read_word(const char **at, const char *word) {
  size_t size = strlen(word);
  if (strncmp(*at, word, size) != 0)
    return false;
  *at += size;
  return true;
}

static bool read_id(const char **at, char id[MEET_ID_SIZE]) {
  if (strspn(*at, "0123456789abcdef") != MEET_ID_SIZE - 1)
    return false;
  memcpy(id, *at, MEET_ID_SIZE - 1);
  id[MEET_ID_SIZE - 1] = '\0';
  *at += MEET_ID_SIZE - 1;
  return true;
}

static struct key parse(const struct meet *meet, const char *text) {
  struct key key = {.kind = OTHER};
  const char *at = text;
  bool whole = read_word(&at, meet->prefix);
  if (whole && strcmp(at, "meeting") == 0) {
    key.kind = MEETING;
    return key;
  }
  if (whole && read_word(&at, "worker/")) {
    key.kind = WORKER;
    whole = read_number(&at, &key.rank);
  } else if (whole && read_word(&at, "step/")) {
    key.kind = STEP;
    whole = read_id(&at, key.meeting) && read_word(&at, "/") && read_number(&at, &key.step) && read_word(&at, "/") &&
            read_number(&at, &key.rank);
  } else if (whole && read_word(&at, "end/")) {
    key.kind = END;
    whole = read_id(&at, key.meeting) && read_word(&at, "/") && read_number(&at, &key.rank);
  }
  if (!whole || *at || key.rank >= MEET_MAX_WORKERS)
    key.kind = OTHER;
  return key;
}

static const char *string_of(const json_t *json, const char *name) {
  const char *text = json_string_value(json_object_get(json, name));
  return text ? text : "";
}

static char *line_of(const json_t *json, const char *name) {
  char *text = strdup(string_of(json, name));
  if (text)
    printable_line(text);
  return text;
}

void meet_worker_free(struct meet_worker *worker) {
  free(worker->host);
  free(worker->why);
  json_decref(worker->settings);
  json_decref(worker->step[0]);
  json_decref(worker->step[1]);
  *worker = (struct meet_worker){0};
}

void meet_wake_keeper(struct meet *meet) {
  meet->wakes++;
  pthread_cond_signal(&meet->work);
}

void meet_state_changed(struct meet *meet) {
  pthread_cond_broadcast(&meet->changed);
  meet_wake_keeper(meet);
  eventfd_write(meet->waker, 1); // full: it is awake
}

uint32_t meet_state_come(const struct meet *meet) {
  uint32_t come = 0;
  for (uint32_t i = 0; i < MEET_MAX_WORKERS; i++)
    come += meet->workers[i].there && strcmp(meet->workers[i].meeting, meet->meeting) == 0;
  return come;
}

// A worker of this meeting is dead or has failed: only the first such worker is reported.
static void note_lost(struct meet *meet, uint32_t rank) {
  if (atomic_load(&meet->lost) || rank == meet->rank)
    return;
  meet->first = rank;
  atomic_store(&meet->lost, true);
}

static void end_worker(struct meet *meet, uint32_t rank, enum meet_end end, const char *why) {
  struct meet_worker *worker = &meet->workers[rank];
  worker->end = end;
  free(worker->why);
  worker->why = why ? strdup(why) : NULL;
  if ((end == MEET_LOST || end == MEET_FAILED) && meet->joined && strcmp(worker->meeting, meet->meeting) == 0)
    note_lost(meet, rank);
}

void meet_state_suspect(struct meet *meet, uint32_t rank, const char *why) {
  struct meet_worker *worker = &meet->workers[rank];
  if (worker->id[0] == '\0' || worker->end != MEET_GOING || worker->suspect)
    return;
  worker->suspect = true;
  log_debug("meet %s: rank %u seems dead: %s", meet->id, rank, why);
  free(worker->why);
  worker->why = strdup(why);
  meet_wake_keeper(meet);
}

void meet_state_lost(struct meet *meet, uint32_t rank) {
  struct meet_worker *worker = &meet->workers[rank];
  char why[256];
  if (worker->end != MEET_GOING)
    return;
  snprintf(why, sizeof why, "%s", worker->why ? worker->why : "?");
  end_worker(meet, rank, MEET_LOST, why);
  worker->clear = true;
  meet_state_changed(meet);
}

static void put_meeting(struct meet *meet, const json_t *json, const struct weft_store_kv *kv) {
  snprintf(meet->open_id, sizeof meet->open_id, "%s", string_of(json, "id"));
  json_int_t size = json_integer_value(json_object_get(json, "size"));
  meet->open_size = size >= 1 && size <= MEET_MAX_WORKERS ? (uint32_t)size : 0;
  meet->open_full = json_is_true(json_object_get(json, "full"));
  meet->open_revision = kv->create_revision;
  meet->open_change = kv->mod_revision;
}

static void delete_meeting(struct meet *meet) {
  meet->open_id[0] = '\0';
  meet->open_revision = meet->open_change = 0;
  meet->open_size = 0;
  meet->open_full = false;
}

static void check_all_come(struct meet *meet) {
  if (meet->joined && !meet->all_joined && meet_state_come(meet) == meet->size)
    meet->all_joined = true;
}

// Whether the other worker, if it is of the same meeting, has the same settings as this one.
static void compare_settings(struct meet *meet, uint32_t rank) {
  const struct meet_worker *worker = &meet->workers[rank];
  if (!worker->there || strcmp(worker->meeting, meet->meeting) != 0 || meet->other != MEET_MAX_WORKERS ||
      meet_same_settings(meet, worker))
    return;
  meet->other = rank;
  meet->difference = meet_difference(meet, rank);
}

// This worker's own claim: from here on it takes part.
static void join(struct meet *meet, uint32_t rank) {
  meet->joined = true;
  meet->rank = rank;
  memcpy(meet->meeting, meet->workers[rank].meeting, sizeof meet->meeting);
  for (uint32_t i = 0; i < MEET_MAX_WORKERS; i++) {
    const struct meet_worker *worker = &meet->workers[i];
    bool gone = worker->end == MEET_LOST || worker->end == MEET_FAILED; // reported before this claim was seen
    if (gone && strcmp(worker->meeting, meet->meeting) == 0)
      note_lost(meet, i);
    compare_settings(meet, i);
  }
}

static void put_worker(struct meet *meet, uint32_t rank, const json_t *json, int64_t lease) {
  struct meet_worker *worker = &meet->workers[rank];
  if (worker->id[0] && strcmp(worker->id, string_of(json, "id")) == 0)
    return; // read again
  if (meet->all_joined || atomic_load(&meet->lost))
    return; // of a later meeting: this one is over, and its ranks keep their names, the dead one's too
  meet_worker_free(worker);
  worker->there = true;
  worker->lease = lease;
  snprintf(worker->meeting, sizeof worker->meeting, "%s", string_of(json, "meeting"));
  snprintf(worker->id, sizeof worker->id, "%s", string_of(json, "id"));
  snprintf(worker->address, sizeof worker->address, "%s", string_of(json, "address"));
  snprintf(worker->place, sizeof worker->place, "%s", string_of(json, "place"));
  worker->host = line_of(json, "host");
  worker->pid = json_integer_value(json_object_get(json, "pid"));
  worker->settings = json_incref(json_object_get(json, "settings"));
  if (strcmp(worker->id, meet->id) == 0)
    join(meet, rank);
  else if (meet->joined)
    compare_settings(meet, rank);
  check_all_come(meet);
}

static void put_step(struct meet *meet, const struct key *key, json_t *json) {
  struct meet_worker *worker = &meet->workers[key->rank];
  uint32_t place = key->step % 2;
  if (!meet->joined || strcmp(key->meeting, meet->meeting) != 0 || worker->step_number[place] >= key->step)
    return;
  json_decref(worker->step[place]);
  worker->step[place] = json_incref(json);
  worker->step_number[place] = key->step;
}

// The record of a worker that left because of a death names the dead worker.
static void put_dead(struct meet *meet, const struct key *key, const json_t *json) {
  json_int_t rank = json_integer_value(json_object_get(json, "rank"));
  if (!json || rank < 0 || rank >= MEET_MAX_WORKERS)
    return;
  struct meet_worker *worker = &meet->workers[rank];
  if (worker->end != MEET_GOING || strcmp(worker->id, string_of(json, "id")) != 0 ||
      strcmp(worker->meeting, key->meeting) != 0)
    return;
  char *why = line_of(json, "why");
  worker->in_store = true;
  end_worker(meet, (uint32_t)rank, MEET_LOST, why);
  free(why);
}

static void put_end(struct meet *meet, const struct key *key, const json_t *json) {
  struct meet_worker *worker = &meet->workers[key->rank];
  const char *kind = string_of(json, "kind");
  if (strcmp(worker->id, string_of(json, "id")) != 0 || strcmp(worker->meeting, key->meeting) != 0)
    return;
  put_dead(meet, key, json_object_get(json, "dead"));
  char *why = line_of(json, "why");
  worker->in_store = true;
  worker->err = (int)json_integer_value(json_object_get(json, "err"));
  if (worker->err >= 0)
    worker->err = WEFT_ERR_PEER_LOST;
  if (worker->end == MEET_GOING || strcmp(kind, "failed") == 0)
    end_worker(meet, key->rank,
               strcmp(kind, "left") == 0     ? MEET_LEFT
               : strcmp(kind, "failed") == 0 ? MEET_FAILED
                                             : MEET_LOST,
               why);
  free(why);
}

void meet_state_put(struct meet *meet, const struct weft_store_kv *kv) {
  struct key key = parse(meet, kv->key);
  log_debug("meet %s: put %s", meet->id, kv->key);
  json_t *json = key.kind != OTHER ? json_loadb(kv->value, kv->value_len, JSON_DECODE_ANY, NULL) : NULL;
  if (key.kind == MEETING)
    put_meeting(meet, json, kv);
  else if (key.kind == WORKER)
    put_worker(meet, key.rank, json, kv->lease);
  else if (key.kind == STEP)
    put_step(meet, &key, json);
  else if (key.kind == END)
    put_end(meet, &key, json);
  json_decref(json);
}

// The worker's claim has gone. If no record has the reason, its lease has ended.
static void delete_worker(struct meet *meet, uint32_t rank) {
  struct meet_worker *worker = &meet->workers[rank];
  if (!worker->there)
    return;
  worker->there = worker->clear = false;
  if (!meet->joined || strcmp(worker->meeting, meet->meeting) != 0 || (!meet->all_joined && worker->end == MEET_LEFT))
    meet_worker_free(worker); // free for somebody else
  else if (worker->end == MEET_GOING)
    end_worker(meet, rank, MEET_LOST, "its keys are gone from the store, because its lease was not renewed");
}

void meet_state_delete(struct meet *meet, const char *text) {
  struct key key = parse(meet, text);
  log_debug("meet %s: delete %s", meet->id, text);
  if (key.kind == MEETING)
    delete_meeting(meet);
  else if (key.kind == WORKER)
    delete_worker(meet, key.rank);
}

// Whether it is the claim that is known.
static bool is_claim_of(const struct meet *meet, const struct weft_store_kv *kv, uint32_t rank) {
  json_t *json = json_loadb(kv->value, kv->value_len, 0, NULL);
  bool same = strcmp(meet->workers[rank].id, string_of(json, "id")) == 0;
  json_decref(json);
  return same;
}

void meet_state_read(struct meet *meet, const struct weft_store_list *list) {
  bool found[MEET_MAX_WORKERS] = {false}, open = false;
  // `end` sorts before `worker`, but a claim has to be known first.
  for (int claims = 1; claims >= 0; claims--)
    for (size_t i = 0; i < list->count; i++) {
      struct key key = parse(meet, list->kvs[i]->key);
      if ((key.kind == WORKER) != (claims == 1))
        continue;
      meet_state_put(meet, list->kvs[i]);
      open = open || key.kind == MEETING;
      if (key.kind == WORKER)
        found[key.rank] = is_claim_of(meet, list->kvs[i], key.rank);
    }
  if (!open)
    delete_meeting(meet);
  if (meet->joined && !found[meet->rank])
    meet->lease_ended = true; // the store was restarted empty: nobody else is to blame
  for (uint32_t i = 0; i < MEET_MAX_WORKERS && !meet->lease_ended; i++)
    if (!found[i])
      delete_worker(meet, i);
  meet->changes++;
  meet_state_changed(meet);
}
