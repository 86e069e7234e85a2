// Files and objects.
#include "bench/transfer/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/random.h"
#include "base/text/text.h"

enum { CHUNK = 1 << 18 };

// --- the client of objects ---

static int set(const char *variable, const char *value) {
  if (!value || !*value)
    return 0;
  return setenv(variable, value, 1) == 0 ? 0 : fail_errno(errno, "cannot pass on an option of the S3 client");
}

int transfer_stored_set_client(const struct transfer_config *config) {
  char endpoint[512];
  const char *given = config->obj_endpoint_override;
  if (given && !strstr(given, "://")) {
    snprintf(endpoint, sizeof endpoint, "%s://%s", transfer_obj_scheme_names[config->obj_scheme], given);
    given = endpoint;
  }
  if (config->obj_use_virtual_addressing && given)
    return fail(WEFT_ERR_UNSUPPORTED,
                "--obj_use_virtual_addressing with --obj_endpoint_override: Weft names the bucket "
                "in the path where an endpoint is given; leave one of them out");
  // The client prefers this variable to AWS_ENDPOINT_URL.
  int err = set("AWS_ENDPOINT_URL_S3", given);
  // A session token belongs to one access key: the environment's token does not fit the given key.
  if (!err && config->obj_access_key && *config->obj_access_key)
    unsetenv("AWS_SESSION_TOKEN");
  if (!err)
    err = set("AWS_ACCESS_KEY_ID", config->obj_access_key);
  if (!err)
    err = set("AWS_SECRET_ACCESS_KEY", config->obj_secret_key);
  if (!err)
    err = set("AWS_SESSION_TOKEN", config->obj_session_token);
  if (!err)
    err = set("AWS_REGION", config->obj_region);
  if (!err)
    err = set("AWS_CA_BUNDLE", config->obj_ca_bundle);
  return err;
}

// --- names ---

// The name of place `i`; NULL if memory ran out.
static char *name_place(const struct transfer_plan *plan, uint32_t i, uint64_t id) {
  const struct transfer_config *config = &plan->config;
  struct text text = {0};
  if (plan->storage == TRANSFER_OBJECTS) {
    text_add(&text, "%s/weft-bench-%s-%u", config->obj_bucket_name, config->common.group, i);
    return text_take(&text);
  }
  const char *folder = config->filepath ? config->filepath : ".";
  if (!config->filenames) {
    text_add(&text, "%s/weft-bench-%016" PRIx64 "-%u", folder, id, i);
    return text_take(&text);
  }
  const char *at = config->filenames;
  for (uint32_t skip = i; skip > 0; skip--)
    at += strcspn(at, ",") + 1;
  if (*at != '/' && config->filepath)
    text_add(&text, "%s/", folder);
  text_add(&text, "%.*s", (int)strcspn(at, ","), at);
  return text_take(&text);
}

static uint32_t count_names(const char *list) {
  uint32_t count = 1;
  for (; *list; list++)
    count += *list == ',';
  return count;
}

static int count_places(const struct transfer_plan *plan, uint32_t *count) {
  const struct transfer_config *config = &plan->config;
  uint64_t places = config->num_files;
  if (plan->storage == TRANSFER_OBJECTS)
    places = (uint64_t)config->num_threads * config->pipeline_depth * config->max_batch_size;
  else if (config->filenames && count_names(config->filenames) != config->num_files && config->num_files != 1)
    return fail(WEFT_ERR_INVALID, "--filenames names %u files, but --num_files is %u: want the same number",
                count_names(config->filenames), config->num_files);
  else if (config->filenames)
    places = count_names(config->filenames);
  if (places > TRANSFER_MAX_FILES)
    return fail(WEFT_ERR_INVALID, "%" PRIu64 " %s: at most %d; want fewer threads, pipelines or batches", places,
                plan->storage == TRANSFER_OBJECTS ? "objects" : "files", TRANSFER_MAX_FILES);
  *count = (uint32_t)places;
  return 0;
}

// --- open and close ---

// Whether reads and writes of the file bypass the page cache. A file system in memory accepts O_DIRECT too, but its
// files exist only in the cache.
static bool passes_cache(const char *path) {
  struct statfs system;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (fd >= 0)
    close(fd);
  return fd >= 0 && statfs(path, &system) == 0 && system.f_type != TMPFS_MAGIC && system.f_type != RAMFS_MAGIC;
}

// Two names must not mean one file: the blocks of both would be at the same places, and each would find the other's.
static int check_apart(const struct transfer_stored *stored, const struct transfer_storage_place *place) {
  struct stat own, other;
  if (fstat(place->fd, &own) != 0)
    return fail_errno(errno, "cannot stat the file %s", place->path);
  for (uint32_t i = 0; i < stored->count; i++)
    if (fstat(stored->places[i].fd, &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino)
      return fail(WEFT_ERR_INVALID, "--filenames: %s and %s are one file: want others, or one name",
                  stored->places[i].path, place->path);
  return 0;
}

// A named file is opened, and made if it does not exist. A file without a given name gets a name that no other file
// has.
static int open_file(struct transfer_stored *stored, struct transfer_storage_place *place) {
  bool named = stored->plan->config.filenames != NULL;
  place->fd = open(place->path, O_RDWR | O_CLOEXEC | O_CREAT | (named ? 0 : O_EXCL), 0600);
  if (place->fd < 0)
    return fail_errno(errno, "cannot open the file %s for the benchmark", place->path);
  place->made = !named;
  int err = named ? check_apart(stored, place) : 0;
  if (err)
    return err;
  bool direct = passes_cache(place->path);
  stored->direct &= direct;
  if (!direct && stored->plan->config.storage_enable_direct)
    return fail(WEFT_ERR_UNSUPPORTED,
                "--storage_enable_direct: the file system of %s has no O_DIRECT, or is in memory; name a --filepath on "
                "another one",
                place->path);
  return 0;
}

static int open_place(struct transfer_stored *stored, uint32_t i, uint64_t id) {
  struct transfer_storage_place *place = &stored->places[i];
  struct weft_agent_memory memory = WEFT_AGENT_MEMORY_INIT;
  bool object = stored->plan->storage == TRANSFER_OBJECTS;
  place->fd = -1;
  place->path = name_place(stored->plan, i, id);
  if (!place->path)
    return fail(WEFT_ERR_NOMEM, "no memory for the names of files");
  int err = object ? 0 : open_file(stored, place);
  memory.kind = object ? WEFT_MEMORY_OBJECT : WEFT_MEMORY_FILE;
  memory.path = place->path;
  if (!err)
    err = weft_agent_register(stored->agent, &memory, &place->region);
  // The file is open here and in the agent, so its name can go: nothing stays behind, however this process ends.
  if (!err && place->made) {
    unlink(place->path);
    place->made = false;
  }
  return err;
}

int transfer_stored_open(struct transfer_stored *stored, const struct transfer_plan *plan, weft_agent_t *agent) {
  uint64_t id = random_id();
  uint32_t count = 0;
  *stored = (struct transfer_stored){.plan = plan, .agent = agent, .direct = true};
  int err = count_places(plan, &count);
  if (!err && !(stored->places = calloc(count, sizeof *stored->places)))
    err = fail(WEFT_ERR_NOMEM, "no memory for %u files", count);
  for (; stored->count < count && !err; stored->count++)
    err = open_place(stored, stored->count, id);
  if (err)
    transfer_stored_close(stored);
  return err;
}

void transfer_stored_close(struct transfer_stored *stored) {
  for (uint32_t i = 0; i < stored->count; i++) {
    struct transfer_storage_place *place = &stored->places[i];
    if (place->region)
      weft_agent_deregister(stored->agent, place->region);
    if (place->fd >= 0)
      close(place->fd);
    if (place->made)
      unlink(place->path);
    free(place->path);
  }
  free(stored->places);
  *stored = (struct transfer_stored){0};
}

// --- places ---

// Blocks are given to the files in turn, and lie one behind the other in each. Random blocks lie anywhere in the file's
// share of the buffer size. The place is drawn from the seed, the index and the variant, so that every variant of a
// slot keeps its place.
static uint64_t offset_in_file(const struct transfer_stored *stored, const struct transfer_load *load, uint64_t index,
                               uint32_t variant) {
  const struct transfer_config *config = &stored->plan->config;
  if (config->randomize_location_mode == TRANSFER_FIXED)
    return index / stored->count * load->block;
  uint64_t range = config->total_buffer_size / stored->count;
  uint64_t drawn = random_mix(random_mix(config->randomize_location_mode_seed ^ (index << 16)) + variant);
  if (range <= load->block)
    return 0;
  return config->randomize_location_mode == TRANSFER_BLOCK_ALIGNED ? drawn % (range / load->block) * load->block
                                                                   : drawn % (range - load->block + 1);
}

void transfer_stored_place(const struct transfer_stored *stored, const struct transfer_load *load, uint32_t thread,
                           uint32_t slot, uint32_t variant, uint64_t number, struct transfer_block *block) {
  uint64_t index = ((uint64_t)thread * load->depth + slot) * load->batch + number;
  uint32_t place = (uint32_t)(index % stored->count);
  block->peer = WEFT_PEER_SELF;
  block->region = stored->places[place].region;
  block->stream = place;
  block->at = block->address =
      stored->plan->storage == TRANSFER_OBJECTS ? 0 : offset_in_file(stored, load, index, variant);
}

// --- contents of files ---

static int move(const struct transfer_storage_place *place, bool writes, char *bytes, uint64_t size, uint64_t at) {
  for (uint64_t done = 0; done < size;) {
    ssize_t some = writes ? pwrite(place->fd, bytes + done, size - done, (off_t)(at + done))
                          : pread(place->fd, bytes + done, size - done, (off_t)(at + done));
    if (some < 0 && errno == EINTR)
      continue;
    if (some < 0)
      return fail_errno(errno, "cannot %s the file %s", writes ? "write" : "read", place->path);
    if (some == 0)
      return fail(WEFT_ERR_DATA, "the file %s ends at byte %" PRIu64 ", although data was written there", place->path,
                  at + done);
    done += (uint64_t)some;
  }
  return 0;
}

static int walk(struct transfer_stored *stored, const struct transfer_contents *contents,
                const struct transfer_block *block, uint64_t size, bool writes) {
  const struct transfer_storage_place *place = &stored->places[block->stream];
  char *chunk = malloc(CHUNK);
  int err = chunk ? 0 : fail(WEFT_ERR_NOMEM, "no memory for a file's contents");
  uint64_t wrong = 0, first = 0;
  for (uint64_t done = 0; done < size && !err; done += CHUNK) {
    uint64_t some = size - done < CHUNK ? size - done : CHUNK, found_at = 0;
    if (writes)
      transfer_contents_make(contents, block->at + done, chunk, some);
    err = move(place, writes, chunk, some, block->at + done);
    uint64_t found = err || writes ? 0 : transfer_contents_compare(contents, block->at + done, chunk, some, &found_at);
    if (found > 0 && wrong == 0)
      first = found_at;
    wrong += found;
  }
  free(chunk);
  if (!err && wrong > 0)
    err = fail(WEFT_ERR_DATA,
               "%" PRIu64 " of %" PRIu64 " bytes of a block in the file %s are wrong, the first at %" PRIu64, wrong,
               size, place->path, first);
  return err;
}

int transfer_stored_write(struct transfer_stored *stored, const struct transfer_contents *contents,
                          const struct transfer_block *block, uint64_t size) {
  return walk(stored, contents, block, size, true);
}

int transfer_stored_check(struct transfer_stored *stored, const struct transfer_contents *contents,
                          const struct transfer_block *block, uint64_t size) {
  return walk(stored, contents, block, size, false);
}
