// Saves and loads the kept file.
#include "limits/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fail.h"
#include "measure/fields.h"
#include "measure/json_file.h"

#define FORMAT "weft_limits"

// --- where it is ---

static int make_folder(const char *path) {
  if (mkdir(path, 0700) == 0 || errno == EEXIST)
    return 0;
  return fail_errno(errno, "cannot make the folder %s", path);
}

// As the variable's specification demands, a path that is not absolute is ignored.
static int find_cache(bool make, char folder[KEPT_PATH]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int size = 0;
  if (cache && *cache == '/')
    size = snprintf(folder, KEPT_PATH, "%s", cache);
  else if (home && *home == '/')
    size = snprintf(folder, KEPT_PATH, "%s/.cache", home);
  else
    return fail(WEFT_ERR_UNSUPPORTED,
                "neither XDG_CACHE_HOME nor HOME names a folder: want one of them, as bounds are kept there");
  if (size >= KEPT_PATH - 64)
    return fail(WEFT_ERR_LIMIT, "the folder of XDG_CACHE_HOME or HOME has a name of %d bytes: want less than %d", size,
                KEPT_PATH - 64);
  return make ? make_folder(folder) : 0;
}

int limits_kept_path(const struct limits_hardware *hardware, bool make, char path[KEPT_PATH]) {
  char folder[KEPT_PATH], own[KEPT_PATH];
  int rc = find_cache(make, folder);
  if (rc == 0)
    snprintf(own, sizeof own, "%.4050s/weft", folder);
  if (rc == 0 && make)
    rc = make_folder(own);
  if (rc == 0)
    snprintf(path, KEPT_PATH, "%.4050s/limits-%.16s.json", own, hardware->machine);
  return rc;
}

// --- what is in it ---

struct kept {
  char when[KEPT_TIME];
  json_t *hardware, *entries;
};

#define KEPT(member)                                                                                                   \
  .name = #member, .offset = offsetof(struct kept, member), .size = sizeof(((struct kept *)NULL)->member)

static const struct field kept_fields[] = {
    {KEPT(when), .type = FIELD_TEXT},
    {KEPT(hardware), .type = FIELD_OBJECT},
    {KEPT(entries), .type = FIELD_ARRAY},
    {.name = NULL},
};

static void kept_free(struct kept *kept) {
  json_decref(kept->hardware);
  json_decref(kept->entries);
}

static void format_time(char out[KEPT_TIME]) {
  struct tm utc;
  time_t now = time(NULL);
  gmtime_r(&now, &utc);
  strftime(out, KEPT_TIME, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

int limits_kept_save(const char *path, const struct limits_hardware *hardware, const struct limits_table *table) {
  struct kept kept = {.hardware = limits_hardware_describe(hardware), .entries = limits_table_to_json(table)};
  format_time(kept.when);
  json_t *json = kept.hardware && kept.entries ? fields_to_json(kept_fields, &kept) : NULL;
  int rc = json && json_object_set_new(json, FORMAT, json_integer(KEPT_VERSION)) == 0
               ? json_file_save(json, AT_FDCWD, path)
               : fail(WEFT_ERR_NOMEM, "no memory to write %s", path);
  json_decref(json);
  kept_free(&kept);
  return rc;
}

static int check_format(const json_t *json) {
  const json_t *version = json_object_get(json, FORMAT);
  if (!json_is_integer(version))
    return fail(WEFT_ERR_PROTOCOL, "there is no number \"" FORMAT "\": these are not kept bounds");
  if (json_integer_value(version) != KEPT_VERSION)
    return fail(WEFT_ERR_VERSION, "they are of format %" JSON_INTEGER_FORMAT ", but this weft reads format %d",
                json_integer_value(version), KEPT_VERSION);
  return 0;
}

static int read_kept(const json_t *json, const struct limits_hardware *hardware, struct limits_table *table,
                     char when[KEPT_TIME]) {
  struct kept kept = {0};
  char why[256] = "";
  int rc = check_format(json);
  if (rc == 0)
    rc = fields_from_json(kept_fields, &kept, json);
  if (rc == 0 && !limits_hardware_is(hardware, kept.hardware, why, sizeof why))
    rc = fail(WEFT_ERR_UNSUPPORTED, "%s", why);
  if (rc == 0)
    rc = limits_table_from_json(table, kept.entries);
  if (rc == 0)
    memcpy(when, kept.when, KEPT_TIME);
  kept_free(&kept);
  return rc;
}

int limits_kept_load(const char *path, const struct limits_hardware *hardware, struct limits_table *table,
                     char when[KEPT_TIME]) {
  json_t *json = NULL;
  if (access(path, F_OK) != 0 && errno == ENOENT)
    return fail(WEFT_ERR_NOT_FOUND, "%s: there is no such file", path);
  int rc = json_file_load(path, "bounds kept by 'weft bench limits'", &json);
  if (rc == 0) {
    rc = read_kept(json, hardware, table, when);
    rc = rc == 0 ? 0 : fail_context(rc, "%s", path);
  }
  json_decref(json);
  return rc;
}
