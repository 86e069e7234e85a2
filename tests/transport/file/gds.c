// The transport `file` between files and GPU memory, with fakes of CUDA and cuFile (support/fake_cufile.h) that produce
// what a test wants: short counts, errors, calls that do not return, no driver.
#include "cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "device/device.h"
#include "support/fake_cufile.h"
#include "support/file.h"
#include "support/wait.h"
#include "transport/support/storage.h"

enum { CUDA_BIT = 1 << WEFT_MEMORY_CUDA, PAGE = 4096, LENGTH = 1 << 20, FILE_BYTES = 1 << 20 };

static const char *const by_uring[] = {"engine=uring", NULL}, *const by_posix[] = {"engine=posix", NULL};
static const char *const in_haste[] = {"engine=posix", "gds_close_s=1", NULL};
static const char *const by_one[] = {"engine=posix", "gds_threads=1", NULL};
static const char *cufile_path;

static struct fake_cufile *fake(void) {
  static struct fake_cufile *found;
  if (!found)
    found = fake_cufile_find(cufile_path);
  return found;
}

// --- a worker with a file, memory of a GPU (of the fake's: the host sees it) and host memory ---

struct gpu {
  struct storage storage;
  const struct device_api *api;
  struct device *device;
  struct device_window window;
  struct transport_region *region;
  uint8_t *bytes;
  int window_fd, fd;
  uint32_t file;
};

static void open_memory(struct gpu *gpu) {
  char why[DEVICE_WHY] = "";
  assert_int_equal(device_load(&gpu->api), 0);
  assert_int_equal(gpu->api->open(0, &gpu->device, why), 0);
  assert_int_equal(gpu->api->window_create(gpu->device, LENGTH, &gpu->window, &gpu->window_fd, why), 0);
  gpu->bytes = gpu->window.memory;
}

static int reg_memory(struct gpu *gpu) {
  struct transport_memory memory = {
      .kind = WEFT_MEMORY_CUDA, .address = gpu->bytes, .length = LENGTH, .device = 0, .fd = gpu->window_fd};
  return gpu->storage.transport->reg(gpu->storage.worker, &memory, &gpu->region);
}

// False: that engine is not here.
static bool open_gpu(struct gpu *gpu, const char *const *settings, uint64_t file_bytes) {
  memset(gpu, 0, sizeof *gpu);
  if (storage_open(&gpu->storage, "file", settings, LENGTH) != 0)
    return false;
  open_memory(gpu);
  gpu->fd = support_file(file_bytes, 3);
  gpu->file = storage_file(&gpu->storage, gpu->fd, "data.bin");
  assert_int_equal(reg_memory(gpu), 0);
  return true;
}

static void close_memory(struct gpu *gpu) {
  gpu->api->window_release(gpu->device, &gpu->window);
  gpu->api->close(gpu->device);
  close(gpu->window_fd);
  if (gpu->fd > 0)
    close(gpu->fd);
}

static void close_gpu(struct gpu *gpu) {
  storage_close(&gpu->storage);
  close_memory(gpu);
  assert_int_equal(atomic_load(&fake()->handles), 0);
  assert_int_equal(atomic_load(&fake()->buffers), 0);
}

static void gpu_piece(struct gpu *gpu, struct storage_request *request, uint64_t at, uint64_t offset, uint64_t length) {
  storage_piece(&gpu->storage, request, gpu->file, 0, offset, length);
  struct transport_piece *piece = &request->pieces[request->request.num_pieces - 1];
  piece->local = gpu->region;
  piece->local_address = (uint64_t)(uintptr_t)gpu->bytes + at;
}

static int move(struct gpu *gpu, enum weft_transfer_op op, uint64_t at, uint64_t offset, uint64_t length,
                char why[120]) {
  struct storage_request request;
  storage_request(&gpu->storage, &request, op, 1);
  gpu_piece(gpu, &request, at, offset, length);
  storage_prepare(&request);
  int rc = storage_run(&gpu->storage, &request);
  assert_int_equal(request.status[0], rc);
  if (rc == 0)
    assert_int_equal(request.request.moved, length);
  snprintf(why, 120, "%s", request.request.why);
  storage_free(&request);
  return rc;
}

static void check_file(const struct gpu *gpu, const uint8_t *want, uint64_t length) {
  uint8_t *found = malloc(length);
  assert_int_equal(pread(gpu->fd, found, length, 0), (ssize_t)length);
  assert_memory_equal(found, want, length);
  free(found);
}

static int reset(void **state) {
  (void)state;
  struct fake_cufile *it = fake();
  atomic_store(&it->driver_error, 0);
  atomic_store(&it->driver_cuda, 0);
  atomic_store(&it->handle_error, 0);
  atomic_store(&it->buffer_error, 0);
  atomic_store(&it->error, 0);
  atomic_store(&it->errno_, 0);
  atomic_store(&it->from, 0);
  atomic_store(&it->interrupts, 0);
  atomic_store(&it->at_most, 0);
  atomic_store(&it->hold, 0);
  return 0;
}

// --- without it ---

// The first ones: once a process has cuFile and its driver, it keeps them.
static void without(const char *want) {
  struct gpu gpu = {0};
  assert_int_equal(storage_open(&gpu.storage, "file", by_posix, LENGTH), 0);
  open_memory(&gpu);
  assert_int_equal(gpu.storage.worker->abilities.local_kinds & CUDA_BIT, 0);
  if (!strstr(gpu.storage.worker->lacks, want))
    fail_msg("\"%s\" does not say \"%s\"", gpu.storage.worker->lacks, want);
  assert_int_equal(reg_memory(&gpu), WEFT_ERR_UNSUPPORTED);
  assert_non_null(strstr(weft_last_error(), want));
  gpu.fd = support_file(PAGE, 3);
  uint32_t file = storage_file(&gpu.storage, gpu.fd, "data.bin");
  assert_int_equal(storage_move(&gpu.storage, WEFT_TRANSFER_READ, file, 0, 0, PAGE, NULL), 0);
  storage_close(&gpu.storage);
  close_memory(&gpu);
}

static void test_missing(void **state) {
  (void)state;
  setenv("WEFT_CUFILE", "/nowhere/libcufile.so.0", 1);
  without("there is no cuFile, the library of GPUDirect Storage (from WEFT_CUFILE): ");
  setenv("WEFT_CUFILE", getenv("WEFT_CUDA_PLUGIN"), 1);
  without("is not cuFile: it has no cuFileDriverOpen");
  setenv("WEFT_CUFILE", "off", 1);
  without("GPUDirect Storage is switched off (WEFT_CUFILE=off)");
  setenv("WEFT_CUFILE", cufile_path, 1);
}

// Known when both sides are there, whichever comes first; nothing but GPUs is harmed.
static void test_no_driver(void **state) {
  (void)state;
  static const char *const want = "cuFile's driver does not open: CU_FILE_DRIVER_NOT_INITIALIZED (5001): the "
                                  "kernel module nvidia-fs is not loaded";
  for (int memory_first = 0; memory_first < 2; memory_first++) {
    struct gpu gpu = {0};
    atomic_store(&fake()->driver_error, 5001);
    assert_int_equal(storage_open(&gpu.storage, "file", by_posix, LENGTH), 0);
    struct storage *storage = &gpu.storage;
    open_memory(&gpu);
    assert_int_equal(storage->worker->abilities.local_kinds & CUDA_BIT, CUDA_BIT);
    if (memory_first)
      assert_int_equal(reg_memory(&gpu), 0);
    gpu.fd = support_file(PAGE, 3);
    gpu.file = storage_file(storage, gpu.fd, "data.bin");
    if (!memory_first) {
      assert_int_equal(reg_memory(&gpu), WEFT_ERR_UNSUPPORTED);
      assert_non_null(strstr(weft_last_error(), want));
    }
    assert_int_equal(storage->worker->abilities.local_kinds & CUDA_BIT, 0);
    assert_non_null(strstr(storage->worker->lacks, want));
    assert_int_equal(storage_move(storage, WEFT_TRANSFER_READ, gpu.file, 0, 0, PAGE, NULL), 0);
    storage_close(storage);
    close_memory(&gpu);
  }
  assert_int_equal(atomic_load(&fake()->drivers), 0);
}

static void test_switched_off(void **state) {
  (void)state;
  static const char *const off[] = {"gds=0", NULL};
  struct storage storage;
  assert_int_equal(storage_open(&storage, "file", off, PAGE), 0);
  assert_int_equal(storage.worker->abilities.local_kinds & CUDA_BIT, 0);
  assert_non_null(strstr(storage.worker->lacks, "switched off (gds=0)"));
  storage_close(&storage);
}

static void test_refused_file(void **state) {
  (void)state;
  struct gpu gpu;
  struct storage_request request;
  assert_true(open_gpu(&gpu, by_posix, FILE_BYTES));
  atomic_store(&fake()->handle_error, 5008);
  storage_request(&gpu.storage, &request, WEFT_TRANSFER_READ, 1);
  gpu_piece(&gpu, &request, 0, 0, PAGE);
  assert_int_equal(gpu.storage.transport->prepare(&request.request), WEFT_ERR_UNSUPPORTED);
  assert_non_null(strstr(weft_last_error(), "cuFile does not take data.bin"));
  assert_non_null(strstr(weft_last_error(), "CU_FILE_IO_NOT_SUPPORTED (5008)"));
  storage_free(&request);
  assert_int_equal(storage_move(&gpu.storage, WEFT_TRANSFER_READ, gpu.file, 0, 0, PAGE, NULL), 0);
  close_gpu(&gpu);
}

// --- data ---

// Pieces that share pages, in any order, of any alignment, between GPU and host memory; each byte of the file once.
static void pieces_of_any_kind(const char *const *settings) {
  enum { PIECES = 150, MOST = 20000 };
  struct gpu gpu;
  if (!open_gpu(&gpu, settings, FILE_BYTES)) {
    print_message("without io_uring: %s\n", weft_last_error());
    return;
  }
  uint64_t seed = random_id();
  print_message("seed %llu\n", (unsigned long long)seed);
  uint8_t *want = malloc(FILE_BYTES);
  support_fill(want, FILE_BYTES, 3);
  support_fill(gpu.bytes, LENGTH, seed);
  support_fill(gpu.storage.bytes, LENGTH, seed + LENGTH);
  struct storage_request request;
  storage_request(&gpu.storage, &request, WEFT_TRANSFER_WRITE, PIECES);
  uint64_t offset = random_mix(seed) % PAGE;
  for (uint32_t i = 0; i < PIECES && offset < FILE_BYTES; i++) {
    uint64_t length = 1 + random_mix(seed + i) % MOST, from = random_mix(seed ^ i) % (LENGTH - MOST);
    length = length < FILE_BYTES - offset ? length : FILE_BYTES - offset;
    if (i % 3 == 2)
      storage_piece(&gpu.storage, &request, gpu.file, from, offset, length);
    else
      gpu_piece(&gpu, &request, from, offset, length);
    memcpy(want + offset, (i % 3 == 2 ? gpu.storage.bytes : gpu.bytes) + from, length);
    offset += length;
  }
  storage_prepare(&request);
  assert_int_equal(storage_run(&gpu.storage, &request), 0);
  storage_free(&request);
  check_file(&gpu, want, FILE_BYTES);
  char why[120];
  memset(gpu.bytes, 0, LENGTH);
  assert_int_equal(move(&gpu, WEFT_TRANSFER_READ, 5, 77, LENGTH - 100, why), 0);
  assert_memory_equal(gpu.bytes + 5, want + 77, LENGTH - 100);
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(gpu.bytes[i], 0);
  for (uint64_t i = LENGTH - 95; i < LENGTH; i++)
    assert_int_equal(gpu.bytes[i], 0);
  free(want);
  close_gpu(&gpu);
}

static void test_data(void **state) {
  (void)state;
  int before = atomic_load(&fake()->calls);
  pieces_of_any_kind(by_uring);
  pieces_of_any_kind(by_posix);
  assert_true(atomic_load(&fake()->calls) > before);
}

static void test_short_counts(void **state) {
  (void)state;
  atomic_store(&fake()->at_most, 5000);
  atomic_store(&fake()->interrupts, 20);
  pieces_of_any_kind(by_posix);
  assert_true(atomic_load(&fake()->interrupts) <= 0);
}

static void test_unpinned_memory(void **state) {
  (void)state;
  atomic_store(&fake()->buffer_error, 5036);
  pieces_of_any_kind(by_one);
}

// --- errors ---

static void test_short_file(void **state) {
  (void)state;
  struct gpu gpu;
  struct storage_request request;
  assert_true(open_gpu(&gpu, by_posix, 100001));
  storage_request(&gpu.storage, &request, WEFT_TRANSFER_READ, 4);
  gpu_piece(&gpu, &request, 0, 0, 65536);
  gpu_piece(&gpu, &request, 65536, 65536, 65536); // ends 31,071 bytes too late
  gpu_piece(&gpu, &request, 131072, 200000, 10);  // not at all
  gpu_piece(&gpu, &request, 196608, 100000, 1);   // the last byte
  storage_prepare(&request);
  assert_int_equal(storage_run(&gpu.storage, &request), WEFT_ERR_LIMIT);
  const int32_t want[] = {0, WEFT_ERR_LIMIT, WEFT_ERR_LIMIT, 0};
  assert_memory_equal(request.status, want, sizeof want);
  assert_int_equal(request.request.moved, 100001 + 1);
  assert_non_null(strstr(request.request.why, "data.bin ends at byte "));
  storage_free(&request);
  close_gpu(&gpu);
}

// Two requests at once: each error belongs to the piece that it happened to.
static void each_its_own(enum weft_transfer_op op, const char *want) {
  struct gpu gpu;
  struct storage_request good, bad;
  assert_true(open_gpu(&gpu, by_posix, FILE_BYTES));
  storage_request(&gpu.storage, &good, op, 1);
  gpu_piece(&gpu, &good, 0, 0, 40000);
  storage_request(&gpu.storage, &bad, op, 3);
  gpu_piece(&gpu, &bad, 65536, 65536, 8192);
  gpu_piece(&gpu, &bad, 131072, 500000, 50000);
  gpu_piece(&gpu, &bad, 262144, 409600, 3); // no page of it is whole: not by cuFile
  storage_prepare(&good);
  storage_prepare(&bad);
  assert_int_equal(gpu.storage.transport->post(&good.request), 0);
  assert_int_equal(storage_run(&gpu.storage, &bad), WEFT_ERR_SYSTEM);
  assert_int_equal(storage_wait(&gpu.storage, &good), 0);
  const int32_t status[] = {0, WEFT_ERR_SYSTEM, 0};
  assert_memory_equal(bad.status, status, sizeof status);
  if (!strstr(bad.request.why, want))
    fail_msg("\"%s\" does not say \"%s\"", bad.request.why, want);
  assert_int_equal(good.num_done, 1);
  assert_int_equal(bad.num_done, 1);
  storage_free(&good);
  storage_free(&bad);
  close_gpu(&gpu);
}

static void test_errors(void **state) {
  (void)state;
  atomic_store(&fake()->from, 409600);
  atomic_store(&fake()->error, 5010);
  each_its_own(WEFT_TRANSFER_READ, " of data.bin: CU_FILE_NVFS_DRIVER_ERROR (5010): the kernel");
  each_its_own(WEFT_TRANSFER_WRITE, "cannot write ");
  atomic_store(&fake()->error, 0);
  atomic_store(&fake()->errno_, EIO);
  each_its_own(WEFT_TRANSFER_READ, strerror(EIO));
  each_its_own(WEFT_TRANSFER_WRITE, strerror(EIO));
}

// --- calls that do not return ---

static bool is_inside(void *arg) {
  return atomic_load(&fake()->inside) >= *(int *)arg;
}

static bool is_outside(void *arg) {
  (void)arg;
  return atomic_load(&fake()->inside) == 0;
}

static void await_calls(int count) {
  if (!support_wait(is_inside, &count, SUPPORT_DEADLINE_MS))
    fail_msg("waited in vain for %d calls of cuFile", count);
}

// While cuFile waits, the worker moves on; what was cancelled ends when cuFile is done with its memory, not before.
static void test_cancel(void **state) {
  (void)state;
  struct gpu gpu;
  struct storage_request request, queued;
  assert_true(open_gpu(&gpu, by_one, FILE_BYTES));
  const struct transport *transport = gpu.storage.transport;
  storage_request(&gpu.storage, &request, WEFT_TRANSFER_READ, 1);
  gpu_piece(&gpu, &request, 0, 0, LENGTH);
  storage_request(&gpu.storage, &queued, WEFT_TRANSFER_READ, 1);
  gpu_piece(&gpu, &queued, 0, 0, PAGE);
  storage_prepare(&request);
  storage_prepare(&queued);
  atomic_store(&fake()->at_most, PAGE);
  atomic_store(&fake()->hold, 1);
  assert_int_equal(transport->post(&request.request), 0);
  await_calls(1);
  assert_int_equal(transport->post(&queued.request), 0); // behind it: there is one thread
  assert_int_equal(storage_move(&gpu.storage, WEFT_TRANSFER_READ, gpu.file, 0, 0, LENGTH, NULL), 0);
  transport->cancel(&request.request);
  transport->cancel(&queued.request);
  for (int i = 0; i < 100; i++)
    transport->progress(gpu.storage.worker);
  assert_int_equal(atomic_load(&request.request.state), TRANSPORT_IN_FLIGHT);
  assert_int_equal(atomic_load(&fake()->inside), 1);
  atomic_store(&fake()->hold, 0);
  assert_int_equal(storage_wait(&gpu.storage, &request), WEFT_ERR_CANCELED);
  assert_int_equal(storage_wait(&gpu.storage, &queued), WEFT_ERR_CANCELED);
  assert_int_equal(request.request.moved, PAGE); // the call that was under way, and none after it
  assert_int_equal(queued.request.moved, 0);
  memset(gpu.bytes, 0xA5, LENGTH);
  char why[120];
  atomic_store(&fake()->at_most, 0);
  assert_int_equal(move(&gpu, WEFT_TRANSFER_READ, 0, 0, PAGE, why),
                   0); // they can be posted again, and nothing is left behind
  for (uint32_t i = PAGE; i < LENGTH; i++)
    if (gpu.bytes[i] != 0xA5)
      fail_msg("byte %u was written after its request had ended", i);
  storage_free(&request);
  storage_free(&queued);
  close_gpu(&gpu);
}

// close() does not wait for ever, and takes nothing from a call that has not returned.
static void test_close_while_it_hangs(void **state) {
  (void)state;
  struct gpu gpu;
  struct storage_request request;
  assert_true(open_gpu(&gpu, in_haste, FILE_BYTES));
  storage_request(&gpu.storage, &request, WEFT_TRANSFER_READ, 1);
  gpu_piece(&gpu, &request, 0, 0, LENGTH);
  storage_prepare(&request);
  atomic_store(&fake()->hold, 1);
  assert_int_equal(gpu.storage.transport->post(&request.request), 0);
  await_calls(1);
  storage_close(&gpu.storage);
  assert_int_equal(atomic_load(&request.request.state), WEFT_ERR_CANCELED);
  assert_int_equal(request.num_done, 1);
  assert_int_equal(atomic_load(&fake()->handles), 1); // still the call's
  assert_int_equal(atomic_load(&fake()->buffers), 1);
  atomic_store(&fake()->hold, 0);
  if (!support_wait(is_outside, NULL, SUPPORT_DEADLINE_MS))
    fail_msg("waited in vain for the call to return");
  assert_memory_not_equal(gpu.bytes, gpu.bytes + LENGTH / 2, 64); // it had its memory to the end
  atomic_store(&fake()->handles, 0);
  atomic_store(&fake()->buffers, 0);
  gpu.storage.transport->unprepare(&request.request); // its peer has gone
  storage_free(&request);
  close_memory(&gpu);
}

int main(void) {
  cufile_path = getenv("WEFT_CUFILE");
  if (!cufile_path || !getenv("WEFT_CUDA_PLUGIN"))
    return 77;
  cufile_path = strdup(cufile_path);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_missing, reset),
      cmocka_unit_test_setup(test_no_driver, reset),
      cmocka_unit_test_setup(test_switched_off, reset),
      cmocka_unit_test_setup(test_refused_file, reset),
      cmocka_unit_test_setup(test_data, reset),
      cmocka_unit_test_setup(test_short_counts, reset),
      cmocka_unit_test_setup(test_unpinned_memory, reset),
      cmocka_unit_test_setup(test_short_file, reset),
      cmocka_unit_test_setup(test_errors, reset),
      cmocka_unit_test_setup(test_cancel, reset),
      cmocka_unit_test_setup(test_close_while_it_hangs, reset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
