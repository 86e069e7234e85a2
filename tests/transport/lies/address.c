// Peers that lie about their identity.
#include "lies/lies.h"

#include <string.h>

static size_t address_of(const struct end *end, unsigned char *address) {
  size_t size = TRANSPORT_MAX_ADDRESS;
  assert_works(suite.transport->address(end->worker, address, &size));
  return size;
}

// The right name opens, every other one does not.
static void expect_owner_alone(struct lies *lies, const void *address, size_t size, const char *owner) {
  const char *const names[] = {LIES_VICTIM, LIES_LIAR, LIES_THIRD, "", "agent", NULL};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    bool right = names[i] && strcmp(names[i], owner) == 0;
    int rc = lies_connect(lies, address, size, names[i]);
    if ((rc == 0) != right)
      fail_msg("the address of \"%s\" under the name \"%s\": %s", owner, names[i] ? names[i] : "nobody",
               rc == 0 ? "was taken" : weft_last_error());
  }
}

// The victim receives its own address as that of a peer: it would copy from and to its own memory.
static void test_own_address(void **state) {
  (void)state;
  struct lies lies;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  lies_open(&lies);
  expect_owner_alone(&lies, address, address_of(lies.pair.a, address), LIES_VICTIM);
  lies_close(&lies);
}

static void test_address_of_this_process(void **state) {
  (void)state;
  struct lies lies;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  lies_open(&lies);
  expect_owner_alone(&lies, address, address_of(lies.pair.b, address), LIES_LIAR);
  lies_close(&lies);
}

static void test_address_of_another_process(void **state) {
  (void)state;
  struct lies lies;
  lies_open(&lies);
  expect_owner_alone(&lies, lies.third_address, lies.third_address_size, LIES_THIRD);
  lies_close(&lies);
}

struct naming {
  struct lies *lies;
  const char *owner;
};

static int take(void *arg, const void *bytes, size_t size) {
  const struct naming *naming = arg;
  return lies_connect(naming->lies, bytes, size, naming->owner);
}

static void test_each_byte_of_an_address(void **state) {
  (void)state;
  struct lies lies;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  lies_open(&lies);
  lies_each_byte(address, address_of(lies.pair.a, address), take, &(struct naming){&lies, LIES_VICTIM});
  lies_each_byte(address, address_of(lies.pair.b, address), take, &(struct naming){&lies, LIES_LIAR});
  lies_each_byte(lies.third_address, lies.third_address_size, take, &(struct naming){&lies, LIES_THIRD});
  lies_close(&lies);
}

// Of a worker that was, in this process and in the other one.
static void test_address_of_an_incarnation_that_was(void **state) {
  (void)state;
  struct lies lies;
  unsigned char address[TRANSPORT_MAX_ADDRESS];
  lies_open(&lies);
  size_t size = address_of(lies.pair.b, address);
  suite.transport->disconnect(lies.pair.to_b);
  end_close(lies.pair.b);
  assert_true(lies_connect(&lies, address, size, LIES_LIAR) < 0);
  suite.owner = LIES_LIAR;
  end_open(lies.pair.b);
  assert_true(lies_connect(&lies, address, size, LIES_LIAR) < 0);
  lies_close(&lies);
}

const struct CMUnitTest lies_address_cases[] = {
    CASE(test_own_address),
    CASE(test_address_of_this_process),
    CASE(test_address_of_another_process),
    CASE(test_each_byte_of_an_address),
    CASE(test_address_of_an_incarnation_that_was),
};
const size_t num_lies_address_cases = sizeof lies_address_cases / sizeof *lies_address_cases;
