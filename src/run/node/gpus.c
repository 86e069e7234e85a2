// Finds the node's GPUs, and decides between host and GPU memory.
#include "run/node/gpus.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/text.h"
#include "device/device.h"

#define VISIBLE "CUDA_VISIBLE_DEVICES"

struct word {
  const char *text;
  int size;
};

// The next word of a list, without the blanks around it; false at the end.
static bool next_word(const char **at, struct word *word) {
  if (!*at)
    return false;
  const char *begin = *at + strspn(*at, " "), *end = begin + strcspn(begin, ",");
  *at = *end ? end + 1 : NULL;
  while (end > begin && end[-1] == ' ')
    end--;
  *word = (struct word){begin, (int)(end - begin)};
  return true;
}

static bool is_same(struct word a, struct word b) {
  return a.size == b.size && memcmp(a.text, b.text, (size_t)a.size) == 0;
}

static bool starts_with(struct word word, const char *with) {
  size_t size = strlen(with);
  return (size_t)word.size > size && memcmp(word.text, with, size) == 0;
}

static bool is_index(struct word word) {
  return word.size > 0 && strspn(word.text, "0123456789") >= (size_t)word.size;
}

// Whether the word occurs in the list before `end`.
static bool stands_before(const char *list, const char *end, struct word wanted) {
  struct word word;
  while (next_word(&list, &word) && word.text < end)
    if (is_same(word, wanted))
      return true;
  return false;
}

int run_gpus_check_visible(const char *list) {
  const char *at = list;
  struct word word;
  if (list && list[strspn(list, " ")] == '\0')
    return fail(WEFT_ERR_UNSUPPORTED, VISIBLE " is set and empty, which hides every GPU: unset it, or name some");
  while (next_word(&at, &word)) {
    bool none = is_same(word, (struct word){"-1", 2});
    if (none && word.text == list)
      return fail(WEFT_ERR_UNSUPPORTED, VISIBLE " is '%s', which hides every GPU: unset it, or name some", list);
    if (none)
      return 0; // CUDA ignores the rest of the list
    if (!is_index(word) && !starts_with(word, "GPU-") && !starts_with(word, "MIG-"))
      return fail(WEFT_ERR_UNSUPPORTED,
                  VISIBLE " is '%s', of which CUDA does not know '%.*s': want indices such as 0,1, or names such as "
                          "GPU-..., with commas between them",
                  list, word.size, word.text);
    if (stands_before(list, word.text, word))
      return fail(WEFT_ERR_UNSUPPORTED, VISIBLE " is '%s', which names %.*s twice: CUDA sees no GPU then", list,
                  word.size, word.text);
  }
  return 0;
}

static int count_gpus(const struct device_api *api, uint32_t *count) {
  char why[DEVICE_WHY] = "";
  int found = 0, err = api->count(&found, why);
  if (err)
    return device_fail(err, "no GPU can be used", why);
  *count = (uint32_t)found;
  return found > 0 ? 0 : fail(WEFT_ERR_UNSUPPORTED, "there is no GPU");
}

enum { OLDEST = 8 }; // compute capability that the kernels are made for

// Checks that the GPUs can run the kernels, share memory with other processes, and reach each other's memory. Notes
// their UUIDs.
static int check_gpus(const struct device_api *api, struct run_gpus *gpus) {
  char why[DEVICE_WHY] = "", what[64];
  int count = (int)gpus->count;
  for (int i = 0; i < count; i++) {
    struct device_info info;
    snprintf(what, sizeof what, "GPU %d", i);
    int err = api->describe(i, &info, why);
    if (err)
      return device_fail(err, what, why);
    memcpy(gpus->uuid[i], info.uuid, sizeof gpus->uuid[i]);
    if (info.major < OLDEST)
      return fail(WEFT_ERR_UNSUPPORTED, "GPU %d (%s) has compute capability %d.%d, and the kernels want %d.0", i,
                  info.name, info.major, info.minor, OLDEST);
    if (!info.windows)
      return fail(WEFT_ERR_UNSUPPORTED, "GPU %d (%s) cannot share its memory with other processes", i, info.name);
    for (int k = 0; k < count; k++) {
      snprintf(what, sizeof what, "GPU %d cannot reach GPU %d", i, k);
      err = k == i ? 0 : api->check_peer(i, k, why);
      if (err)
        return device_fail(err, what, why);
    }
  }
  return 0;
}

static int too_few(uint32_t count, uint32_t num_ranks) {
  const char *visible = getenv(VISIBLE);
  return fail(WEFT_ERR_UNSUPPORTED,
              "there %s %u GPU%s%s%s%s for %u rank%s live at once on this agent: each needs one of its own, "
              "unless --share-gpus lets several ranks use one",
              count == 1 ? "is" : "are", count, count == 1 ? "" : "s", visible ? " (" VISIBLE " is '" : "",
              visible ? visible : "", visible ? "')" : "", num_ranks, num_ranks == 1 ? "" : "s");
}

// Finds this node's GPUs.
static int find(struct run_gpus *gpus, const struct run_config *config, const struct run_gpus_need *need) {
  const struct device_api *api = NULL;
  uint32_t most = need->most < RUN_GPUS_MAX ? need->most : RUN_GPUS_MAX;
  int err = run_gpus_check_visible(getenv(VISIBLE));
  if (!err && need->in_all > DEVICE_SEATS)
    err = fail(WEFT_ERR_UNSUPPORTED, "the plan has up to %u ranks live at once, but on GPUs there can be at most %d",
               need->in_all, DEVICE_SEATS);
  if (!err)
    err = device_load(&api);
  if (!err)
    err = count_gpus(api, &gpus->count);
  if (!err && gpus->count < need->least && !config->share_gpus)
    err = too_few(gpus->count, need->least);
  if (err)
    return err;
  gpus->count = gpus->count < most ? gpus->count : most;
  return check_gpus(api, gpus);
}

int run_gpus_choose(struct run_gpus *gpus, struct run_config *config, const struct run_gpus_need *need) {
  struct run_gpus found = {0};
  *gpus = found;
  if (config->memory == WEFT_EP_MEMORY_HOST)
    return 0;
  int err = find(&found, config, need);
  if (err && config->memory == WEFT_EP_MEMORY_CUDA)
    return fail_context(err, "--memory cuda");
  if (err)
    snprintf(gpus->why, sizeof gpus->why, "%s", weft_last_error());
  else
    *gpus = found;
  config->memory = err ? WEFT_EP_MEMORY_HOST : WEFT_EP_MEMORY_CUDA;
  return 0;
}

json_t *run_gpus_names(const struct run_gpus *gpus) {
  json_t *names = json_array();
  for (uint32_t i = 0; i < gpus->count; i++) {
    struct text name = {0};
    text_add(&name, "GPU-");
    for (int k = 0; k < RUN_GPUS_UUID; k++)
      text_add(&name, "%s%02x", k == 4 || k == 6 || k == 8 || k == 10 ? "-" : "", gpus->uuid[i][k]);
    json_array_append_new(names, json_string(name.data ? name.data : ""));
    text_free(&name);
  }
  return names;
}

int32_t run_gpus_of_slot(const struct run_gpus *gpus, uint32_t slot) {
  return gpus->count ? (int32_t)(slot % gpus->count) : -1;
}
