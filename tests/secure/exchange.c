// Two parties agree on a key that an observer of all their messages cannot compute.
#include "secure/exchange.h"

#include <string.h>
#include <weft/err.h>

#include "cmocka_all.h"

enum { A, B, THIRD, ALL };

static void test_agree(void **state) {
  (void)state;
  struct exchange pairs[ALL];
  uint8_t keys[ALL][ALL][SECRET_KEY_SIZE], other[SECRET_KEY_SIZE];
  for (int i = 0; i < ALL; i++)
    assert_int_equal(exchange_make(&pairs[i]), 0);
  for (int i = 0; i < ALL; i++)
    for (int j = 0; j < ALL; j++)
      assert_int_equal(exchange_agree(&pairs[i], pairs[j].public_key, "test 1", keys[i][j]), 0);
  assert_memory_equal(keys[A][B], keys[B][A], SECRET_KEY_SIZE);
  for (int i = 0; i < ALL; i++)
    assert_memory_not_equal(keys[A][B], keys[THIRD][i], SECRET_KEY_SIZE);
  assert_int_equal(exchange_agree(&pairs[A], pairs[B].public_key, "test 2", other), 0);
  assert_memory_not_equal(other, keys[A][B], SECRET_KEY_SIZE);
  for (int i = 0; i < ALL; i++)
    exchange_free(&pairs[i]);
  exchange_free(&pairs[A]); // of nothing any more
}

// Points of small order (RFC 7748, section 6.1): all keys agree with them on zeros.
static void test_small_order(void **state) {
  (void)state;
  struct exchange pair;
  uint8_t other[EXCHANGE_SIZE] = {0}, key[SECRET_KEY_SIZE];
  assert_int_equal(exchange_make(&pair), 0);
  assert_int_equal(exchange_agree(&pair, other, "test 1", key), WEFT_ERR_PROTOCOL);
  other[0] = 1;
  assert_int_equal(exchange_agree(&pair, other, "test 1", key), WEFT_ERR_PROTOCOL);
  exchange_free(&pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_agree), cmocka_unit_test(test_small_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
