// Decides whether what was read can be.
#include "store/impatient/truth.h"

#include <string.h>

static void reach(struct truth *truth, uint64_t generation) {
  if (truth->generation == generation)
    return;
  truth->generation = generation;
  truth->epoch = truth->highest = 0;
  truth->revision = 0;
  memset(truth->taken, 0, sizeof truth->taken);
}

struct truth_mark truth_mark(struct truth *truth, uint64_t generation) {
  struct truth_mark mark = {.generation = generation};
  pthread_mutex_lock(&truth->lock);
  if (truth->generation == generation) {
    mark.epoch = truth->epoch;
    mark.highest = truth->highest;
    mark.revision = truth->revision;
  }
  pthread_mutex_unlock(&truth->lock);
  return mark;
}

static const char *note(struct truth *truth, const struct truth_mark *mark, const struct counted *value,
                        int64_t revision) {
  if (truth->generation > mark->generation)
    return NULL; // of a server that has ended
  reach(truth, mark->generation);
  if (truth->epoch && truth->epoch != value->epoch)
    return "a counter of another epoch";
  if (value->count == 0 || value->count >= TRUTH_MOST)
    return "a count out of range";
  if (mark->epoch && (value->count < mark->highest || revision < mark->revision))
    return "a count that goes back";
  if (mark->epoch && value->count == mark->highest && revision != mark->revision)
    return "a count at two revisions";
  truth->epoch = value->epoch;
  if (value->count > truth->highest) {
    truth->highest = value->count;
    truth->revision = revision;
  }
  return NULL;
}

const char *truth_read(struct truth *truth, const struct truth_mark *mark, const struct weft_store_kv *kv) {
  struct counted value;
  if (!kv)
    return mark->epoch ? "a counter that is gone" : NULL;
  if (kv->value_len != sizeof value)
    return "a counter of another size";
  memcpy(&value, kv->value, sizeof value);
  if (value.count != (uint64_t)kv->version)
    return "a counter that was put more or less often than counted";
  pthread_mutex_lock(&truth->lock);
  const char *wrong = note(truth, mark, &value, kv->mod_revision);
  pthread_mutex_unlock(&truth->lock);
  return wrong;
}

const char *truth_wrote(struct truth *truth, const struct truth_mark *mark, const struct counted *value,
                        int64_t revision) {
  pthread_mutex_lock(&truth->lock);
  const char *wrong = note(truth, mark, value, revision);
  if (!wrong && truth->generation == mark->generation) {
    if (truth->taken[value->count])
      wrong = "two transactions counted the same";
    truth->taken[value->count] = true;
  }
  pthread_mutex_unlock(&truth->lock);
  return wrong;
}

// A put that was given up may still arrive at the next server.
void own_begin(struct own *own, uint64_t generation) {
  own->generation = generation;
  own->known = own->present = own->unsure_delete = false;
  own->revision = 0;
  for (uint32_t i = 0; i < OWN_UNSURE; i++)
    own->unsure[i].revision = 0;
}

void own_put(struct own *own, uint64_t number, int64_t revision) {
  own->known = own->present = true;
  own->unsure_delete = false;
  own->number = number;
  own->revision = revision;
}

void own_perhaps_put(struct own *own, uint64_t number) {
  own->unsure[own->num_unsure % OWN_UNSURE].number = number;
  own->unsure[own->num_unsure % OWN_UNSURE].revision = 0;
  own->num_unsure++;
}

void own_deleted(struct own *own) {
  own->present = false;
}

const char *own_read(struct own *own, const struct weft_store_kv *kv) {
  uint64_t number, oldest = UINT64_MAX;
  if (!own->known)
    return NULL;
  if (!kv)
    return own->present && !own->unsure_delete ? "a put that was answered is lost" : NULL;
  if (kv->value_len != sizeof number)
    return "a number of another size";
  memcpy(&number, kv->value, sizeof number);
  if (own->present && kv->mod_revision < own->revision)
    return "a state from before the last put";
  if (own->present && kv->mod_revision == own->revision)
    return number == own->number ? NULL : "another number than the last put's";
  for (uint32_t i = 0; i < own->num_unsure && i < OWN_UNSURE; i++) {
    oldest = own->unsure[i].number < oldest ? own->unsure[i].number : oldest;
    if (own->unsure[i].number != number)
      continue;
    if (own->unsure[i].revision && own->unsure[i].revision != kv->mod_revision)
      return "a put that was carried out twice";
    own->unsure[i].revision = kv->mod_revision;
    return NULL;
  }
  bool forgotten = own->num_unsure > OWN_UNSURE && number < oldest;
  return forgotten ? NULL : "a number that is overwritten";
}
