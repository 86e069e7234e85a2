// Checks and posts requests. operation.c makes the operations of a request.
#include <stdlib.h>
#include <sys/resource.h>

#include "base/fail.h"
#include "transport/file/file.h"

enum { PIN_BYTES = 1 << 30 }; // of one request

static struct file_region *file_of(const struct transport_piece *piece) {
  return (struct file_region *)((struct storage_remote *)piece->remote)->region;
}

static int check_modes(const struct transport_request *request) {
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    const struct file_region *file = file_of(&request->pieces[i]);
    const char *name = file->base.base.memory.path ? file->base.base.memory.path : "its file";
    if (file->base.gone)
      return fail(WEFT_ERR_NOT_FOUND, "piece %u: its file was deregistered", i);
    if (request->op == WEFT_TRANSFER_READ ? !file->readable : !file->writable)
      return fail(WEFT_ERR_INVALID, "piece %u: %s is open for %s only", i, name,
                  request->op == WEFT_TRANSFER_READ ? "writing" : "reading");
  }
  return 0;
}

// The different files of a request, for sync=data.
static int list_files(struct file_request *own, const struct transport_request *request) {
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    struct file_region *file = file_of(&request->pieces[i]);
    uint32_t k = own->num_files;
    while (k > 0 && own->files[k - 1] != file)
      k--;
    if (k > 0)
      continue;
    struct file_region **grown = realloc(own->files, (own->num_files + 1) * sizeof *grown);
    if (!grown)
      return fail(WEFT_ERR_NOMEM, "out of memory for a request");
    own->files = grown;
    own->files[own->num_files++] = file;
  }
  return 0;
}

static void free_own(struct file_request *own) {
  storage_request_free(&own->base);
  free(own->files);
  free(own);
}

// Only so much that it takes a short time, in which the agent's lock is held, since it allocates pages that were never
// touched.
static void pin_pieces(struct file_worker *worker, const struct transport_request *request) {
  uint64_t pinned = 0;
  for (uint32_t i = 0; i < request->num_pieces && pinned < PIN_BYTES; i++) {
    const struct transport_piece *piece = &request->pieces[i];
    struct file_region *memory = (struct file_region *)piece->local;
    uint64_t offset = piece->local_address - (uintptr_t)memory->base.base.memory.address;
    const struct file_engine *engine = file_is_cuda(memory) ? &file_gds : worker->engine;
    pinned += engine->pin(worker, memory, offset, piece->length, PIN_BYTES - pinned);
  }
}

int file_prepare(struct transport_request *request) {
  struct file_worker *worker = (struct file_worker *)request->peer->worker;
  struct file_request *own = calloc(1, sizeof *own);
  if (!own)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request");
  link_init(&own->issue);
  int rc = check_modes(request);
  if (rc == 0)
    rc = storage_request_init(request, &own->base);
  if (rc == 0)
    rc = file_gds_prepare(worker, request);
  if (rc == 0 && worker->sync && request->op == WEFT_TRANSFER_WRITE)
    rc = list_files(own, request);
  if (rc < 0) {
    free_own(own);
    return rc;
  }
  if (worker->pin)
    pin_pieces(worker, request);
  request->own = own;
  return 0;
}

void file_unprepare(struct transport_request *request) {
  free_own(request->own);
  request->own = NULL;
}

static uint64_t most_of_a_file(void) {
  struct rlimit files;
  return getrlimit(RLIMIT_FSIZE, &files) == 0 ? files.rlim_cur : UINT64_MAX;
}

int file_post(struct transport_request *request) {
  struct file_request *own = request->own;
  int rc = storage_request_begin(request);
  if (rc < 0)
    return rc;
  struct file_worker *worker = (struct file_worker *)request->peer->worker;
  own->piece = own->next_file = own->num_flushed = 0;
  own->offset = 0;
  own->syncing = false;
  own->most = request->op == WEFT_TRANSFER_WRITE ? most_of_a_file() : UINT64_MAX;
  if (request->num_pieces == 0) {
    storage_request_end(&own->base);
    return 0;
  }
  link_add(&worker->issue, &own->issue);
  file_issue(worker);
  return 0;
}
