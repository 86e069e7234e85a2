// lies NAME [name=value...]: the catalogue of lies on that transport.
#include "lies/lies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "support/process_vm.h"

struct suite suite = {.seed = 1};

static void open_as(struct end *end, const char *owner) {
  suite.owner = owner;
  end_open(end);
}

void lies_open(struct lies *lies) {
  memset(lies, 0, sizeof *lies);
  lies->pair.a = &lies->pair.ends[0];
  lies->pair.b = HAS(SELF_ONLY) ? lies->pair.a : &lies->pair.ends[1];
  open_as(lies->pair.a, LIES_VICTIM);
  if (!HAS(SELF_ONLY))
    open_as(lies->pair.b, LIES_LIAR);
  lies->pair.to_b = end_connect(lies->pair.a, lies->pair.b);
  if (HAS(SELF_ONLY))
    return;
  process_start(&lies->process, lies->pair.a);
  struct answer *answer = process_ask(&lies->process, ORDER_OPEN, 0, 0, NULL, 0);
  lies->third_address_size = answer->size;
  memcpy(lies->third_address, answer->bytes, answer->size);
  const unsigned char how[2] = {(unsigned char)suite.kind, suite.plain};
  answer = process_ask(&lies->process, ORDER_REGION, LIES_BYTES, 3, how, sizeof how);
  lies->third_key_size = answer->size;
  memcpy(lies->third_key, answer->bytes, answer->size);
  assert_works(suite.transport->connect(lies->pair.a->worker, lies->third_address, lies->third_address_size, LIES_THIRD,
                                        &lies->third));
}

// Whatever was tried, the other process lives, and its memory is as it was.
void lies_close(struct lies *lies) {
  if (lies->process.pid) {
    assert_int_equal(process_ask(&lies->process, ORDER_CHECK, 3, 0, NULL, 0)->value, 0);
    process_end(&lies->process);
  }
  pair_close(&lies->pair);
}

static int refused(int rc) {
  if (rc != 0)
    assert_true(strlen(weft_last_error()) > 10);
  return rc;
}

int lies_connect(struct lies *lies, const void *address, size_t size, const char *owner) {
  struct transport_peer *peer = NULL;
  int rc = suite.transport->connect(lies->pair.a->worker, address, size, owner, &peer);
  if (rc == 0)
    suite.transport->disconnect(peer);
  else
    assert_null(peer);
  return refused(rc);
}

int lies_import(struct transport_peer *peer, const void *key, size_t size) {
  struct transport_remote *remote = NULL;
  int rc = suite.transport->import(peer, key, size, &remote);
  if (rc == 0)
    suite.transport->release(remote);
  else
    assert_null(remote);
  return refused(rc);
}

void lies_card(unsigned char *card, size_t size) {
  uint32_t sum = crc32c(0, card, size - 4);
  for (size_t i = 0; i < 4; i++)
    card[size - 4 + i] = (unsigned char)(sum >> 8 * i);
}

void lies_each_byte(const unsigned char *card, size_t size, lies_take_fn take, void *arg) {
  enum { CARD_HEAD = 12, CARD_SUM = 4 };
  unsigned char *copy = malloc(size);
  assert_non_null(copy);
  for (size_t at = CARD_HEAD; at < size - CARD_SUM; at++)
    for (int way = 0; way < 2; way++) {
      memcpy(copy, card, size);
      copy[at] ^= way ? 0x80 : 0x01;
      lies_card(copy, size);
      if (take(arg, copy, size) == 0)
        fail_msg("byte %zu of %zu was changed, and it was believed", at, size);
    }
  free(copy);
}

static bool choose(char **argv) {
  char why[256] = "";
  suite.name = *argv++;
  for (int i = 0; *argv && i < MAX_SETTINGS; i++)
    suite.settings[i] = *argv++;
  if (transport_find(suite.name, &suite.transport) == 0 && suite.transport->probe(why, sizeof why) == 0) {
    suite.abilities = suite.transport->abilities;
    return true;
  }
  printf("skipped: %s: %s\n", suite.name, why[0] ? why : weft_last_error());
  return false;
}

// Shared memory reaches what it cannot map by a call that not every kernel has.
static bool plain_memory_is_reached(void) {
  return strcmp(suite.name, "shm") != 0 || process_vm_works("plain host");
}

static int run_kind(enum weft_memory_kind kind, bool plain) {
  suite.kind = kind;
  suite.local_kind = WEFT_MEMORY_HOST;
  suite.plain = plain;
  print_message("--- %s, memory of kind %d%s\n", suite.name, (int)kind, plain ? ", without a descriptor" : "");
  int failed = 0;
  if (!HAS(SELF_ONLY))
    failed += _cmocka_run_group_tests("addresses", lies_address_cases, num_lies_address_cases, NULL, NULL);
  failed += _cmocka_run_group_tests("keys", lies_key_cases, num_lies_key_cases, NULL, NULL);
  if (strcmp(suite.name, "shm") == 0)
    failed += _cmocka_run_group_tests("shared memory", lies_shm_cases, num_lies_shm_cases, NULL, NULL);
  if (strcmp(suite.name, "cuda") == 0)
    failed += _cmocka_run_group_tests("memory of GPUs", lies_cuda_cases, num_lies_cuda_cases, NULL, NULL);
  return failed;
}

int main(int argc, char **argv) {
  if (argc > 3 && strcmp(argv[1], "--child") == 0) {
    suite.owner = LIES_THIRD;
    return choose(argv + 3) ? child_main(atoi(argv[2])) : 1;
  }
  if (argc < 2) {
    fprintf(stderr, "usage: %s TRANSPORT [SETTING...]\n", argv[0]);
    return 2;
  }
  if (!choose(argv + 1))
    return 77;
  int failed = 0;
  for (uint32_t kind = 0; kind < TRANSPORT_KINDS; kind++) {
    if (!(suite.abilities.remote_kinds & 1u << kind) || !place_can(kind))
      continue;
    failed += run_kind(kind, false);
    if (kind == WEFT_MEMORY_HOST && !HAS(MAPPED_ONLY) && plain_memory_is_reached())
      failed += run_kind(kind, true);
  }
  return failed != 0;
}
