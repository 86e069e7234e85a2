// Links on CUDA memory that cannot be made, on a plug-in without a GPU: the call gives the reason, and the parts of the
// link that exist already are released.
#include "ep/gpu/support/fake_ranks.h"

#include <dirent.h>

static _Atomic bool no_memory;

int __real_ep_window_private(struct ep_window *window, size_t size);
int __wrap_ep_window_private(struct ep_window *window, size_t size);

int __wrap_ep_window_private(struct ep_window *window, size_t size) {
  return no_memory ? WEFT_ERR_NOMEM : __real_ep_window_private(window, size);
}

static weft_ep_t *open_rank(int32_t rank, const char *host) {
  struct weft_ep_options options = fake_options(rank, NULL, 0);
  options.mode = WEFT_EP_THROUGHPUT;
  options.host_id = host;
  options.transport = "shm";
  options.listen = "127.0.0.1";
  return fake_open(options);
}

static uint32_t descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  uint32_t count = 0;
  assert_non_null(folder);
  while (readdir(folder))
    count++;
  closedir(folder);
  return count;
}

static void the_descriptor_of_a_window_is_closed(void **state) {
  (void)state;
  const int32_t one = 1;
  weft_ep_t *eps[2] = {open_rank(0, "here"), open_rank(1, "here")};
  uint32_t before = descriptors();
  setenv("FAKE_NO_CLEAR", "1", 1);
  assert_int_equal(weft_ep_connect(eps[0], &one, 1, 2000), WEFT_ERR_NOMEM);
  assert_says("the fake clears no window");
  unsetenv("FAKE_NO_CLEAR");
  assert_int_equal(descriptors(), before);
  assert_ok(weft_ep_connect(eps[0], &one, 1, DEADLINE_MS));
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

static void a_link_to_another_host_may_have_no_shadow(void **state) {
  (void)state;
  const int32_t one = 1;
  weft_ep_t *eps[2] = {open_rank(0, "here"), open_rank(1, "there")};
  no_memory = true;
  assert_int_equal(weft_ep_connect(eps[0], &one, 1, 2000), WEFT_ERR_NOMEM);
  no_memory = false;
  assert_ok(weft_ep_connect(eps[0], &one, 1, DEADLINE_MS));
  for (int i = 0; i < 2; i++)
    weft_ep_close(eps[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_open_store, fake_close_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(the_descriptor_of_a_window_is_closed),
      TEST(a_link_to_another_host_may_have_no_shadow),
  };
  return cmocka_run_group_tests_name("ep_fake_half_made", tests, NULL, NULL);
}
