// A device and an engine on the fake CUDA, for each test of the plug-in's host side.
#ifndef TESTS_CUDA_PLUGIN_CASE_H
#define TESTS_CUDA_PLUGIN_CASE_H

#include "cmocka_all.h"
#include "cuda/engine/engine.h"
#include "cuda/support/fake_cuda.h"

enum { RANK = 2 };

extern char why[DEVICE_WHY];
extern struct device *device;
extern struct device_ep *ep; // a test that closes it leaves another one or NULL here

struct device_ep_options usual(void);
int open_all(void **state);
int close_all(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

#define assert_refused(call, code, word)                                                                               \
  do {                                                                                                                 \
    why[0] = '\0';                                                                                                     \
    assert_int_equal(call, code);                                                                                      \
    if (!strstr(why, word))                                                                                            \
      fail_msg("'%s' does not say '%s'", why, word);                                                                   \
  } while (0)

// Asserts that nothing was written to the area.
void assert_empty(const void *area, size_t size);

#endif
