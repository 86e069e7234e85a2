// The transport `file` with each of its engines: all moved data, byte by byte, against a copy of the file in memory.
#include "cmocka_all.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "support/allocations.h"
#include "support/file.h"
#include "support/sanitized.h"
#include "transport/support/storage.h"

// How the worker is opened in this run of the program.
static const char *settings[8];

static void read_all(int fd, uint8_t *bytes, uint64_t length) {
  for (uint64_t done = 0; done < length;) {
    ssize_t got = pread(fd, bytes + done, length - done, (off_t)done);
    assert_true(got > 0);
    done += (uint64_t)got;
  }
}

enum { FILE_BYTES = 4 << 20, ROUNDS = SUPPORT_SANITIZED ? 40 : 120, MAX_PIECES = 12 };

// Pieces that do not overlap, of odd sizes and alignments, or of whole pages.
static void choose_pieces(struct storage *storage, struct storage_request *request, uint32_t file, uint64_t *seed) {
  uint64_t at = 0, offset = 0;
  bool even = random_next(seed) % 3 == 0;
  uint32_t count = 1 + (uint32_t)(random_next(seed) % MAX_PIECES);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t unit = even ? 4096 : 1 + random_next(seed) % 700;
    at += unit * (random_next(seed) % 20);
    offset += unit * (random_next(seed) % 20);
    if (random_next(seed) % 4 == 0)
      at += (4096 + offset % 4096 - at % 4096) % 4096; // what lets the middle go past the page cache
    uint64_t length = unit * (1 + random_next(seed) % (random_next(seed) % 5 ? 40 : 900));
    if (at + length > FILE_BYTES || offset + length > FILE_BYTES)
      break;
    storage_piece(storage, request, file, at, offset, length);
    at += length;
    offset += length;
  }
}

static void test_random_pieces(void **state) {
  (void)state;
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  int fd = support_file(0, 0);
  uint8_t *model = malloc(FILE_BYTES), *memory = malloc(FILE_BYTES), *now = malloc(FILE_BYTES);
  support_fill(model, FILE_BYTES, seed);
  assert_int_equal(pwrite(fd, model, FILE_BYTES, 0), FILE_BYTES);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, FILE_BYTES), 0);
  uint32_t file = storage_file(&storage, fd, "data.bin");
  for (uint32_t round = 0; round < ROUNDS; round++) {
    struct storage_request request;
    storage_request(&storage, &request, round % 2 ? WEFT_TRANSFER_READ : WEFT_TRANSFER_WRITE, MAX_PIECES);
    choose_pieces(&storage, &request, file, &seed);
    if (request.request.op == WEFT_TRANSFER_WRITE && round % 4 == 0) { // dirty pages of another writer's
      uint64_t place = random_next(&seed) % (FILE_BYTES - 5000);
      support_fill(model + place, 5000, seed);
      assert_int_equal(pwrite(fd, model + place, 5000, (off_t)place), 5000);
    }
    support_fill(storage.bytes, FILE_BYTES, seed + round);
    memcpy(memory, storage.bytes, FILE_BYTES);
    uint64_t total = 0;
    for (uint32_t i = 0; i < request.request.num_pieces; i++) {
      const struct transport_piece *piece = &request.pieces[i];
      uint64_t at = piece->local_address - (uint64_t)(uintptr_t)storage.bytes;
      uint8_t *to = request.request.op == WEFT_TRANSFER_READ ? memory + at : model + piece->remote_address;
      memcpy(to, request.request.op == WEFT_TRANSFER_READ ? model + piece->remote_address : memory + at, piece->length);
      total += piece->length;
    }
    storage_prepare(&request);
    int rc = storage_run(&storage, &request);
    if (rc != 0)
      fail_msg("round %u: %s: %s", round, weft_err_name(rc), request.request.why);
    assert_int_equal(request.request.moved, total);
    assert_int_equal(request.num_done, 1);
    assert_memory_equal(storage.bytes, memory, FILE_BYTES);
    read_all(fd, now, FILE_BYTES);
    assert_memory_equal(now, model, FILE_BYTES);
    storage_free(&request);
  }
  storage_close(&storage);
  close(fd);
  free(model), free(memory), free(now);
}

// One list of 20,000, again and again, with other lengths each time, without an allocation.
static void test_many_pieces(void **state) {
  (void)state;
  enum { COUNT = 20000, STRIDE = 600, LENGTH = 512 };
  int fd = support_file(0, 0);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, (uint64_t)COUNT * LENGTH), 0);
  uint32_t file = storage_file(&storage, fd, "data.bin");
  struct storage_request out, in;
  storage_request(&storage, &out, WEFT_TRANSFER_WRITE, COUNT);
  storage_request(&storage, &in, WEFT_TRANSFER_READ, COUNT);
  for (uint64_t i = 0; i < COUNT; i++) {
    storage_piece(&storage, &out, file, i * LENGTH, (COUNT - 1 - i) * STRIDE, LENGTH);
    storage_piece(&storage, &in, file, i * LENGTH, (COUNT - 1 - i) * STRIDE, LENGTH);
  }
  storage_prepare(&out);
  storage_prepare(&in);
  struct allocations sum = {0};
  for (uint32_t round = 0; round < 3; round++) {
    uint8_t *want = malloc(storage.length);
    support_fill(want, storage.length, round + 7);
    memcpy(storage.bytes, want, storage.length);
    allocations_begin();
    int rc = storage_run(&storage, &out);
    allocations_end(&sum);
    assert_int_equal(rc, 0);
    memset(storage.bytes, 0, storage.length);
    uint64_t total = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
      in.pieces[i].length = round == 0 ? LENGTH : (i * 7 + round) % (LENGTH + 1); // 0 is left out
      memset(want + i * LENGTH + in.pieces[i].length, 0, LENGTH - in.pieces[i].length);
      total += in.pieces[i].length;
    }
    allocations_begin();
    rc = storage_run(&storage, &in);
    allocations_end(&sum);
    assert_int_equal(rc, 0);
    assert_int_equal(in.request.moved, total);
    assert_memory_equal(storage.bytes, want, storage.length);
    free(want);
  }
  assert_int_equal(sum.own, 0);
  assert_int_equal(sum.locks, 0);
  storage_free(&out);
  storage_free(&in);
  storage_close(&storage);
  close(fd);
}

static void test_holes_read_as_zeros_and_stay_holes(void **state) {
  (void)state;
  int fd = support_file(0, 0);
  enum { FAR = 1 << 30 };
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, 1 << 20), 0);
  uint32_t file = storage_file(&storage, fd, "data.bin");
  support_fill(storage.bytes, 8192, 5);
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_WRITE, file, 0, FAR, 8192, NULL), 0);
  assert_int_equal(storage_move(&storage, WEFT_TRANSFER_READ, file, 65536, FAR - 65536, 65536 + 8192, NULL), 0);
  for (uint32_t i = 0; i < 65536; i++)
    assert_int_equal(storage.bytes[65536 + i], 0);
  assert_memory_equal(storage.bytes + 131072, storage.bytes, 8192);
  struct stat about;
  assert_int_equal(fstat(fd, &about), 0);
  assert_int_equal(about.st_size, FAR + 8192);
  assert_true(about.st_blocks * 512 < 1 << 20);
  storage_close(&storage);
  close(fd);
}

static void test_messages_come_after_the_data_and_never_on_failure(void **state) {
  (void)state;
  int fd = support_file(0, 0);
  assert_int_equal(ftruncate(fd, 10000), 0);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, 1 << 20), 0);
  uint32_t file = storage_file(&storage, fd, "data.bin");
  struct storage_request request;
  storage_request(&storage, &request, WEFT_TRANSFER_READ, 1);
  storage_piece(&storage, &request, file, 0, 0, 10000);
  request.request.message = "read";
  request.request.message_size = 4;
  storage_prepare(&request);
  assert_int_equal(storage_run(&storage, &request), 0);
  assert_int_equal(storage.num_messages, 1);
  assert_string_equal(storage.message, "read");
  assert_int_equal(ftruncate(fd, 9000), 0);
  assert_int_equal(storage_run(&storage, &request), WEFT_ERR_LIMIT);
  assert_int_equal(storage.num_messages, 1);
  storage_free(&request);
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 0); // a message alone
  request.request.message = "alone";
  request.request.message_size = 5;
  storage_prepare(&request);
  assert_int_equal(storage_run(&storage, &request), 0);
  assert_string_equal(storage.message, "alone");
  storage_free(&request);
  storage_close(&storage);
  close(fd);
}

// The first ends at once or while the others wait; whichever: nothing touches its memory after its end.
static void test_cancel(void **state) {
  (void)state;
  enum { COUNT = 512, LENGTH = 16384 };
  int fd = support_file(0, 0);
  assert_int_equal(ftruncate(fd, (off_t)COUNT * LENGTH), 0);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, (uint64_t)COUNT * LENGTH), 0);
  uint32_t file = storage_file(&storage, fd, "data.bin");
  for (uint32_t round = 0; round < 20; round++) {
    struct storage_request request, other;
    storage_request(&storage, &request, WEFT_TRANSFER_READ, COUNT);
    storage_request(&storage, &other, WEFT_TRANSFER_READ, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
      storage_piece(&storage, &request, file, (uint64_t)i * LENGTH, (uint64_t)i * LENGTH, LENGTH);
      storage_piece(&storage, &other, file, (uint64_t)i * LENGTH, (uint64_t)i * LENGTH, LENGTH);
    }
    storage_prepare(&request);
    storage_prepare(&other);
    assert_int_equal(storage.transport->post(&request.request), 0);
    assert_int_equal(storage.transport->post(&request.request), WEFT_ERR_BUSY);
    assert_int_equal(storage.transport->post(&other.request), 0);
    for (uint32_t i = 0; i < round; i++)
      storage.transport->progress(storage.worker);
    storage.transport->cancel(&request.request);
    int rc = storage_wait(&storage, &request);
    assert_true(rc == 0 || rc == WEFT_ERR_CANCELED);
    uint64_t moved = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
      assert_true(request.status[i] == 0 || request.status[i] == WEFT_ERR_CANCELED);
      moved += request.status[i] == 0 ? LENGTH : 0;
    }
    assert_true(request.request.moved >= moved);
    assert_int_equal(rc == 0, moved == (uint64_t)COUNT * LENGTH);
    assert_int_equal(storage_wait(&storage, &other), 0);
    assert_int_equal(storage_run(&storage, &request), 0); // it can be posted again
    assert_int_equal(request.num_done, 2);
    storage_free(&request);
    storage_free(&other);
  }
  storage_close(&storage);
  close(fd);
}

static void test_close_and_disconnect_cancel(void **state) {
  (void)state;
  for (uint32_t how = 0; how < 2; how++) {
    int fd = support_file(0, 0);
    assert_int_equal(ftruncate(fd, 16 << 20), 0);
    struct storage storage;
    assert_int_equal(storage_open(&storage, "file", settings, 16 << 20), 0);
    uint32_t file = storage_file(&storage, fd, "data.bin");
    struct storage_request request;
    storage_request(&storage, &request, WEFT_TRANSFER_READ, 1);
    storage_piece(&storage, &request, file, 0, 0, 16 << 20);
    storage_prepare(&request);
    assert_int_equal(storage.transport->post(&request.request), 0);
    if (how == 0) {
      storage.transport->disconnect(storage.peer);
      storage_wait(&storage, &request);
      storage_close(&storage);
    } else {
      storage_close(&storage);
    }
    assert_int_equal(request.num_done, 1);
    assert_true(request.request.state == WEFT_ERR_CANCELED || request.request.state == 0);
    const struct transport *transport = storage.transport;
    transport->unprepare(&request.request);
    request.request.own = NULL;
    storage_free(&request);
    close(fd);
  }
}

static int refused(struct storage *storage, int fd) {
  struct transport_memory memory = {.kind = WEFT_MEMORY_FILE, .fd = fd, .path = "it"};
  struct transport_region *region;
  return storage->transport->reg(storage->worker, &memory, &region);
}

static int refused_piece(struct storage *storage, enum weft_transfer_op op, uint32_t file, uint64_t at, uint64_t offset,
                         uint64_t length) {
  struct storage_request request;
  storage_request(storage, &request, op, 1);
  storage_piece(storage, &request, file, at, offset, length);
  int rc = storage->transport->prepare(&request.request);
  assert_true(rc < 0);
  assert_null(request.request.own);
  storage_free(&request);
  return rc;
}

static uint64_t resident(const struct storage *storage) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = storage->length / page, count = 0;
  unsigned char *there = malloc(pages);
  assert_non_null(there);
  assert_int_equal(mincore(storage->bytes, pages * page, there), 0);
  for (uint64_t i = 0; i < pages; i++)
    count += there[i] & 1;
  free(there);
  return count * page;
}

// To pin memory makes its pages. What a request does not use is left alone: a large region would take seconds.
static void test_memory_that_is_not_used_is_not_pinned(void **state) {
  (void)state;
  enum { MUCH = 512 << 20, LITTLE = 64 << 20 };
  struct storage storage;
  struct storage_request request;
  int fd = support_file(0, 0);
  assert_int_equal(storage_open(&storage, "file", settings, MUCH), 0);
  uint32_t file = storage_file(&storage, fd, "a file");
  uint64_t before = resident(&storage);
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 2);
  storage_piece(&storage, &request, file, 4096, 0, 4096);
  storage_piece(&storage, &request, file, MUCH / 2, 4096, 4096);
  storage_prepare(&request);
  assert_in_range(resident(&storage) - before, 0, 2 * LITTLE);
  assert_int_equal(storage_run(&storage, &request), 0);
  storage_free(&request);
  storage_close(&storage);
  close(fd);
}

static void test_what_cannot_be_is_refused(void **state) {
  (void)state;
  int fd = support_file(0, 0), ends[2];
  assert_int_equal(pipe(ends), 0);
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", settings, 1 << 20), 0);
  assert_int_equal(refused(&storage, ends[0]), WEFT_ERR_INVALID);
  assert_int_equal(refused(&storage, 9999), WEFT_ERR_SYSTEM);
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  int appends = open(name, O_WRONLY | O_APPEND), reads = open(name, O_RDONLY);
  assert_int_equal(refused(&storage, appends), WEFT_ERR_INVALID);
  uint32_t file = storage_file(&storage, fd, "a file"), only = storage_file(&storage, reads, "only");
  assert_int_equal(refused_piece(&storage, WEFT_TRANSFER_WRITE, only, 0, 0, 1), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "only is open for reading only"));
  assert_int_equal(refused_piece(&storage, WEFT_TRANSFER_WRITE, file, (1 << 20) - 1, 0, 2), WEFT_ERR_LIMIT);
  assert_int_equal(refused_piece(&storage, WEFT_TRANSFER_WRITE, file, 0, UINT64_MAX, 1), WEFT_ERR_LIMIT);
  assert_int_equal(refused_piece(&storage, WEFT_TRANSFER_WRITE, file, 0, INT64_MAX, 2), WEFT_ERR_LIMIT);
  struct storage_request request; // deregistered between prepare and post
  storage_request(&storage, &request, WEFT_TRANSFER_WRITE, 1);
  storage_piece(&storage, &request, file, 0, 0, 10);
  storage_prepare(&request);
  storage.transport->unreg(storage.regions[file]);
  assert_int_equal(storage_run(&storage, &request), WEFT_ERR_NOT_FOUND);
  storage_free(&request);
  struct transport_worker *bad;
  const char *const wrong[] = {"depth=0", NULL}, *const unknown[] = {"deep=1", NULL};
  struct transport_options options = {.size = sizeof options, .settings = wrong};
  assert_int_equal(storage.transport->open(&options, &bad), WEFT_ERR_INVALID);
  options.settings = unknown;
  assert_int_equal(storage.transport->open(&options, &bad), WEFT_ERR_INVALID);
  assert_non_null(strstr(weft_last_error(), "\"deep\""));
  storage_close(&storage);
  close(fd), close(ends[0]), close(ends[1]), close(appends), close(reads);
}

// test_transport_file [SETTING=VALUE...]
int main(int argc, char **argv) {
  for (int i = 1; i < argc && i < 8; i++)
    settings[i - 1] = argv[i];
  struct storage storage;
  if (storage_open(&storage, "file", settings, 4096) == WEFT_ERR_UNSUPPORTED) {
    printf("skipped: %s\n", weft_last_error());
    return 77;
  }
  storage_close(&storage);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_pieces),
      cmocka_unit_test(test_many_pieces),
      cmocka_unit_test(test_holes_read_as_zeros_and_stay_holes),
      cmocka_unit_test(test_messages_come_after_the_data_and_never_on_failure),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_close_and_disconnect_cancel),
      cmocka_unit_test(test_memory_that_is_not_used_is_not_pinned),
      cmocka_unit_test(test_what_cannot_be_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
