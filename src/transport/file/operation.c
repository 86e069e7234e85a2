// Cuts a request into operations, and handles their results. A request is not cut in advance: it has a position up to
// which it has begun, and the next operations start there as long as the worker has free ones. So a request of any size
// needs no memory of its own, and post() allocates nothing.
#include <errno.h>
#include <string.h>

#include "base/fail.h"
#include "transport/file/file.h"

enum {
  CHUNK = 1 << 20,     // largest size of an operation in bytes: a long piece is cut, so that its parts run at once
  GPU_CHUNK = 4 << 20, // the same for cuFile, which has few threads
  ROUND = 16,          // operations that a request begins before the next request may
  BATCH = 4, // operations that are submitted together: a device that gets all at once idles while they are prepared
  MAX_TRIES = 1000, // of an operation that the kernel puts off
};

static const char *name_of(const struct file_region *file) {
  const char *path = file->base.base.memory.path;
  return path ? path : "the file";
}

static const struct file_engine *engine_of(const struct file_worker *worker, const struct file_op *op) {
  return file_is_cuda(op->memory) ? &file_gds : worker->engine;
}

static void start(struct file_worker *worker, struct file_op *op) {
  engine_of(worker, op)->start(worker, op);
}

// The length of the next operation, and whether it goes past the page cache: whole pages do, if the address is aligned;
// the bytes before and behind them do not.
static void shape(const struct file_worker *worker, struct file_op *op, uint64_t left) {
  const struct file_region *file = op->file;
  uint64_t page = worker->page, off_page = op->offset & (page - 1), length = left < CHUNK ? left : CHUNK;
  uintptr_t at_page = (uintptr_t)op->address - off_page; // congruent to where the next page begins
  op->direct = false;
  if (file_is_cuda(op->memory)) { // ends with a page, so that no two write to one page by cuFile
    op->length = (uint32_t)(left < GPU_CHUNK ? left : GPU_CHUNK - off_page);
    return;
  }
  if (worker->direct && file->direct >= 0 && !file->no_direct && at_page % file->memory_align == 0) {
    uint64_t head = off_page ? page - off_page : 0;
    if (head > 0 && length > head) {
      length = head;
    } else if (head == 0 && length >= page) {
      length -= length & (page - 1);
      op->direct = true;
    }
  }
  op->length = (uint32_t)length;
}

static void finish_if_done(struct file_worker *worker, struct file_request *own);

static void release(struct file_worker *worker, struct file_op *op) {
  struct file_request *own = op->request;
  op->busy = false;
  op->next = worker->free_ops;
  worker->free_ops = op;
  worker->in_flight--;
  own->in_flight--;
  finish_if_done(worker, own);
}

static struct file_op *take(struct file_worker *worker, struct file_request *own) {
  struct file_op *op = worker->free_ops;
  worker->free_ops = op->next;
  *op = (struct file_op){.request = own, .busy = true};
  worker->in_flight++;
  own->in_flight++;
  return op;
}

static void begin_sync(struct file_worker *worker, struct file_request *own) {
  struct file_op *op = take(worker, own);
  op->file = own->files[own->next_file++];
  op->sync = op->to_file = true;
  if (own->next_file == own->num_files)
    link_remove(&own->issue);
  start(worker, op);
}

// Begins the next operation of the request, or finds that there is none.
static void begin(struct file_worker *worker, struct file_request *own) {
  const struct transport_request *request = own->base.request;
  const struct transport_piece *piece = &request->pieces[own->piece];
  uint32_t index = own->piece;
  struct file_region *file = (struct file_region *)((struct storage_remote *)piece->remote)->region;
  if (file->base.gone)
    storage_request_failed(&own->base, index, fail(WEFT_ERR_NOT_FOUND, "%s was deregistered", name_of(file)));
  else if (own->offset < piece->length) {
    struct file_op *op = take(worker, own);
    op->file = file;
    op->memory = (struct file_region *)piece->local;
    op->piece = index;
    op->to_file = request->op == WEFT_TRANSFER_WRITE;
    op->address = (char *)(uintptr_t)(piece->local_address + own->offset);
    op->offset = piece->remote_address + own->offset;
    shape(worker, op, piece->length - own->offset);
    own->offset += op->length;
    if (file->limited && op->offset + op->length > own->most)
      file_op_done(worker, op, -EFBIG);
    else
      start(worker, op);
  }
  if (file->base.gone || own->offset >= piece->length) {
    own->piece++;
    own->offset = 0;
  }
  if (own->piece == request->num_pieces) {
    link_remove(&own->issue);
    finish_if_done(worker, own);
  }
}

void file_issue(struct file_worker *worker) {
  while (worker->free_ops && !link_empty(&worker->issue)) {
    struct file_request *own = LINK_OF(worker->issue.next, struct file_request, issue);
    for (uint32_t i = 0; i < ROUND && worker->free_ops && !link_empty(&own->issue); i++) {
      if (own->syncing)
        begin_sync(worker, own);
      else
        begin(worker, own);
      if (i % BATCH == BATCH - 1)
        worker->engine->flush(worker);
    }
    if (!link_empty(&own->issue)) { // behind the other requests
      link_remove(&own->issue);
      link_add(&worker->issue, &own->issue);
    }
  }
  worker->engine->flush(worker);
}

// A cancelled request with sync=data may have written all bytes, but the device may not have them.
void file_request_end(struct file_request *own) {
  if (own->base.canceled && own->num_flushed < own->num_files)
    for (uint32_t i = 0; i < own->base.request->num_pieces; i++)
      storage_request_failed(&own->base, i, fail(WEFT_ERR_CANCELED, "cancelled"));
  storage_request_end(&own->base);
}

static void finish_if_done(struct file_worker *worker, struct file_request *own) {
  if (own->in_flight > 0 || !link_empty(&own->issue))
    return;
  bool is_write = own->base.request->op == WEFT_TRANSFER_WRITE;
  if (is_write && worker->sync && !own->syncing && !own->base.err && !own->base.canceled && own->num_files > 0) {
    own->syncing = true;
    link_add(&worker->issue, &own->issue);
    return;
  }
  file_request_end(own);
}

// A flush that failed: no piece of that file can be relied upon.
static void sync_failed(struct file_request *own, const struct file_region *file, int error) {
  int err = fail_errno(error, "cannot flush %s", name_of(file));
  const struct transport_request *request = own->base.request;
  for (uint32_t i = 0; i < request->num_pieces; i++) {
    if (((struct storage_remote *)request->pieces[i].remote)->region == &file->base)
      storage_request_failed(&own->base, i, err);
  }
}

static void op_failed(const struct file_op *op, int error) {
  struct file_request *own = op->request;
  if (op->sync) {
    sync_failed(own, op->file, error);
    return;
  }
  const char *what = op->to_file ? "write" : "read";
  int err;
  if (error == 0 && !op->to_file)
    err = fail(WEFT_ERR_LIMIT, "%s ends at byte %llu, but %llu bytes from byte %llu were requested", name_of(op->file),
               (unsigned long long)op->offset, (unsigned long long)own->base.request->pieces[op->piece].length,
               (unsigned long long)own->base.request->pieces[op->piece].remote_address);
  else if (op->why)
    err = fail(WEFT_ERR_SYSTEM, "cannot %s %u bytes at %llu of %s: %s", what, op->length,
               (unsigned long long)op->offset, name_of(op->file), op->why);
  else
    err = fail_errno(error ? error : EIO, "cannot %s %u bytes at %llu of %s", what, op->length,
                     (unsigned long long)op->offset, name_of(op->file));
  storage_request_failed(&own->base, op->piece, err);
}

// Whether the operation continues after `error`: it was only delayed, or the file does not support O_DIRECT after all.
static bool goes_on(struct file_op *op, int error) {
  if (error == EINVAL && op->direct) {
    op->file->no_direct = true;
    op->direct = false;
    return true;
  }
  return (error == EINTR || error == EAGAIN || error == ECANCELED) && op->tries++ < MAX_TRIES;
}

void file_op_done(struct file_worker *worker, struct file_op *op, ssize_t result) {
  struct storage_request *own = &op->request->base;
  if (result > 0 && !op->sync) {
    storage_request_moved(own, op->piece, (uint64_t)result);
    op->address += result;
    op->offset += (uint64_t)result;
    op->length -= (uint32_t)result;
    op->tries = 0;
    if (op->length > 0 && !own->canceled) { // a short read or write continues
      uint32_t left = op->length;
      shape(worker, op, left);
      op->direct = op->direct && op->length == left;
      op->length = left;
      start(worker, op);
      return;
    }
  } else if (result < 0 || (!op->sync && op->length > 0)) {
    if (!own->canceled && result < 0 && goes_on(op, (int)-result)) {
      start(worker, op);
      return;
    }
    if (!own->canceled || (result != -ECANCELED && result != -EINTR))
      op_failed(op, (int)-result);
  } else if (op->sync) {
    op->request->num_flushed++;
  }
  release(worker, op);
}

void file_cancel(struct transport_request *request) {
  struct file_request *own = request->own;
  if (atomic_load_explicit(&request->state, memory_order_acquire) != TRANSPORT_IN_FLIGHT || own->base.canceled)
    return;
  struct file_worker *worker = (struct file_worker *)own->base.peer->base.worker;
  bool waits = !link_empty(&own->issue);
  if (!waits && own->in_flight == 0)
    return; // it has ended, and progress() completes it
  own->base.canceled = true;
  if (waits)
    link_remove(&own->issue);
  for (uint32_t i = 0; own->in_flight > 0 && i < worker->depth; i++) {
    if (worker->ops[i].busy && worker->ops[i].request == own)
      engine_of(worker, &worker->ops[i])->cancel(worker, &worker->ops[i]);
  }
  if (own->in_flight == 0)
    file_request_end(own);
  worker->engine->flush(worker);
}
