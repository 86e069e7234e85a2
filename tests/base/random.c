// Random numbers: identities from the kernel, streams from a seed.
#include "base/random.h"
#include "cmocka_all.h"

#include <ctype.h>
#include <string.h>

static void a_uuid_has_the_form_of_version_4(void **state) {
  (void)state;
  for (int round = 0; round < 1000; round++) {
    char uuid[37];
    random_uuid(uuid);
    assert_int_equal(strlen(uuid), 36);
    for (int i = 0; i < 36; i++) {
      if (i == 8 || i == 13 || i == 18 || i == 23)
        assert_int_equal(uuid[i], '-');
      else
        assert_true(isdigit(uuid[i]) || (uuid[i] >= 'a' && uuid[i] <= 'f'));
    }
    assert_int_equal(uuid[14], '4');
    assert_non_null(strchr("89ab", uuid[19]));
  }
}

static void uuids_and_ids_differ(void **state) {
  (void)state;
  char first[37], second[37];
  random_uuid(first);
  random_uuid(second);
  assert_string_not_equal(first, second);
  uint64_t ids[100];
  for (int i = 0; i < 100; i++) {
    ids[i] = random_id();
    assert_true(ids[i] != 0);
    for (int k = 0; k < i; k++)
      assert_true(ids[i] != ids[k]);
  }
}

static void bytes_are_filled_to_the_end_and_not_beyond(void **state) {
  (void)state;
  // Of 64 buffers of 300 bytes, no place stays 0 throughout but by a chance of 256^-64.
  unsigned char seen[300] = {0}, buffer[301];
  for (int round = 0; round < 64; round++) {
    memset(buffer, 0, sizeof buffer);
    random_bytes(buffer, 300);
    for (int i = 0; i < 300; i++)
      seen[i] |= buffer[i];
    assert_int_equal(buffer[300], 0);
  }
  for (int i = 0; i < 300; i++)
    assert_int_not_equal(seen[i], 0);
}

// The published outputs of splitmix64 for the seed 1234567.
static void a_stream_is_that_of_splitmix64(void **state) {
  (void)state;
  static const uint64_t published[] = {6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                                       4593380528125082431u, 16408922859458223821u};
  uint64_t position = 1234567;
  for (int i = 0; i < 5; i++)
    assert_true(random_next(&position) == published[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_uuid_has_the_form_of_version_4),
      cmocka_unit_test(uuids_and_ids_differ),
      cmocka_unit_test(bytes_are_filled_to_the_end_and_not_beyond),
      cmocka_unit_test(a_stream_is_that_of_splitmix64),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
