// A worker of a transport to storage with its peer, memory and requests.
#include "transport/support/storage.h"

#include "cmocka_all.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/time/clock.h"
#include "support/wait.h"

static void on_message(void *arg, const void *bytes, size_t size) {
  struct storage *storage = arg;
  storage->num_messages++;
  snprintf(storage->message, sizeof storage->message, "%.*s", (int)size, (const char *)bytes);
}

static void expect(int rc, const char *what) {
  if (rc != 0)
    fail_msg("%s: %s: %s", what, weft_err_name(rc), weft_last_error());
}

int storage_open(struct storage *storage, const char *transport, const char *const *settings, uint64_t length) {
  memset(storage, 0, sizeof *storage);
  expect(transport_find(transport, &storage->transport), "find");
  struct transport_options options = {
      .size = sizeof options, .on_message = on_message, .arg = storage, .settings = settings};
  int rc = storage->transport->open(&options, &storage->worker);
  if (rc < 0)
    return rc;
  char address[TRANSPORT_MAX_ADDRESS];
  size_t size = sizeof address;
  expect(storage->transport->address(storage->worker, address, &size), "address");
  expect(storage->transport->connect(storage->worker, address, size, NULL, &storage->peer), "connect");
  storage->bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(storage->bytes, MAP_FAILED);
  storage->length = length;
  struct transport_memory memory = {
      .kind = WEFT_MEMORY_HOST, .address = storage->bytes, .length = length, .fd = -1, .device = -1};
  expect(storage->transport->reg(storage->worker, &memory, &storage->host), "reg of memory");
  return 0;
}

void storage_close(struct storage *storage) {
  storage->transport->close(storage->worker);
  munmap(storage->bytes, storage->length);
}

static uint32_t add_region(struct storage *storage, const struct transport_memory *memory) {
  uint32_t index = storage->num_regions++;
  assert_true(index < STORAGE_MAX_REGIONS);
  expect(storage->transport->reg(storage->worker, memory, &storage->regions[index]), "reg");
  char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  expect(storage->transport->pack(storage->regions[index], key, &size), "pack");
  expect(storage->transport->import(storage->peer, key, size, &storage->remotes[index]), "import");
  return index;
}

uint32_t storage_file(struct storage *storage, int fd, const char *path) {
  return add_region(storage, &(struct transport_memory){.kind = WEFT_MEMORY_FILE, .fd = fd, .path = path});
}

uint32_t storage_object(struct storage *storage, const char *path, uint64_t length) {
  return add_region(storage,
                    &(struct transport_memory){.kind = WEFT_MEMORY_OBJECT, .fd = -1, .path = path, .length = length});
}

static void count_done(struct transport_request *request) {
  struct storage_request *own = request->arg;
  own->num_done++;
}

void storage_request(struct storage *storage, struct storage_request *request, enum weft_transfer_op op,
                     uint32_t capacity) {
  memset(request, 0, sizeof *request);
  request->pieces = calloc(capacity + 1u, sizeof *request->pieces);
  request->status = calloc(capacity + 1u, sizeof *request->status);
  request->capacity = capacity;
  request->request.peer = storage->peer;
  request->request.op = op;
  request->request.pieces = request->pieces;
  request->request.status = request->status;
  request->request.done = count_done;
  request->request.arg = request;
}

void storage_piece(struct storage *storage, struct storage_request *request, uint32_t remote, uint64_t at,
                   uint64_t offset, uint64_t length) {
  assert_true(request->request.num_pieces < request->capacity);
  request->pieces[request->request.num_pieces++] = (struct transport_piece){
      storage->host, storage->remotes[remote], (uint64_t)(uintptr_t)storage->bytes + at, offset, length};
}

void storage_prepare(struct storage_request *request) {
  expect(request->request.peer->worker->transport->prepare(&request->request), "prepare");
}

void storage_free(struct storage_request *request) {
  if (request->request.own)
    request->request.peer->worker->transport->unprepare(&request->request);
  free(request->pieces);
  free(request->status);
}

int storage_wait(struct storage *storage, struct storage_request *request) {
  const struct transport *transport = storage->transport;
  uint64_t deadline = clock_deadline_ms(SUPPORT_DEADLINE_MS);
  int fd = transport->fd(storage->worker);
  int state;
  while ((state = atomic_load_explicit(&request->request.state, memory_order_acquire)) == TRANSPORT_IN_FLIGHT) {
    if (clock_passed(deadline))
      fail_msg("a request of %u pieces has not ended within a minute", request->request.num_pieces);
    if (transport->progress(storage->worker) == 0 && fd >= 0 && transport->arm(storage->worker) == 0)
      poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, clock_left_ms(deadline));
  }
  return state;
}

int storage_run(struct storage *storage, struct storage_request *request) {
  expect(storage->transport->post(&request->request), "post");
  return storage_wait(storage, request);
}

int storage_move(struct storage *storage, enum weft_transfer_op op, uint32_t remote, uint64_t at, uint64_t offset,
                 uint64_t length, char *why) {
  struct storage_request request;
  storage_request(storage, &request, op, 1);
  storage_piece(storage, &request, remote, at, offset, length);
  storage_prepare(&request);
  int rc = storage_run(storage, &request);
  assert_int_equal(request.status[0], rc);
  if (why)
    snprintf(why, sizeof request.request.why, "%s", request.request.why);
  storage_free(&request);
  return rc;
}
