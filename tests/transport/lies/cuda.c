// Lies that only GPU memory allows: an authenticated process describes its memory wrongly.
#include "transport/cuda/cuda.h"
#include "lies/lies.h"
#include "transport/shm/shm.h"

#include <string.h>

// Where the fields of a key stand, and of its share.
enum { HEAD = 12, SUM = 4, AT_ADDRESS = HEAD + 8, AT_SHARE = HEAD + 48 };

static void seal_as(const struct transport_peer *peer, unsigned char *key, size_t size) {
  const struct shm_peer *shm = (const struct shm_peer *)((const struct cuda_peer *)peer)->shm;
  struct shm_home home = {.proof_fd = -1};
  struct shm_seal seal;
  memcpy(home.secret, shm->trust.secret, sizeof home.secret);
  size_t body = size - HEAD - SUM - sizeof seal;
  assert_works(shm_sign(&home, "key of cuda", key + HEAD, body, "", &seal));
  memcpy(key + HEAD + body, &seal, sizeof seal);
  lies_card(key, size);
}

// The other process says that its memory is the victim's own, which the victim would reach where it says that it is.
static void test_own_memory_as_that_of_another_process(void **state) {
  (void)state;
  NEEDS(suite.kind == WEFT_MEMORY_CUDA, "it is about memory of GPUs");
  struct lies lies;
  struct place canary, local;
  unsigned char own[TRANSPORT_MAX_KEY];
  size_t size = sizeof own;
  struct transport_remote *remote;
  lies_open(&lies);
  place_show(&canary, lies.pair.a, WEFT_MEMORY_CUDA, false, LIES_BYTES);
  place_open(&local, lies.pair.a, NULL, LIES_BYTES);
  place_fill(&canary, 9);
  assert_works(suite.transport->pack(canary.region, own, &size));
  uint64_t address = place_address(&canary, 0);
  struct device_share share;
  memcpy(&share, lies.third_key + AT_SHARE, sizeof share);
  share.process = ((struct cuda_region *)canary.region)->share.process;
  assert_memory_equal(&share.process, own + AT_SHARE, sizeof share.process); // it stands in every key of the victim's
  share.address = address;
  memcpy(lies.third_key + AT_SHARE, &share, sizeof share);
  memcpy(lies.third_key + AT_ADDRESS, &address, sizeof address);
  seal_as(lies.third, lies.third_key, lies.third_key_size);
  assert_works(suite.transport->import(lies.third, lies.third_key, lies.third_key_size, &remote));
  struct transport_piece piece = {.local = local.region,
                                  .remote = remote,
                                  .local_address = place_address(&local, 0),
                                  .remote_address = address,
                                  .length = LIES_BYTES};
  struct transport_request request;
  request_init(&request, lies.third, WEFT_TRANSFER_READ, &piece, 1);
  assert_int_equal(request_run(&lies.pair, &request), 0);
  place_check(&local, 0, LIES_BYTES, 3, 0); // its own memory, whatever it calls it
  suite.transport->release(remote);
  place_close(&local);
  place_close(&canary);
  lies_close(&lies);
}

const struct CMUnitTest lies_cuda_cases[] = {CASE(test_own_memory_as_that_of_another_process)};
const size_t num_lies_cuda_cases = sizeof lies_cuda_cases / sizeof *lies_cuda_cases;
