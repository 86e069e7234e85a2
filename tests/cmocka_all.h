// cmocka with the headers that it wants before it, in the order that it wants them.
#ifndef TESTS_CMOCKA_ALL_H
#define TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

// base/fail.h has a function of the name of cmocka's macro fail(), which fail_msg() would now call: a test would report
// its failure and pass. So tests use fail_msg() alone, made of what stands below.
#undef fail
#undef fail_msg
#define fail_msg(...)                                                                                                  \
  do {                                                                                                                 \
    print_error("ERROR: " __VA_ARGS__);                                                                                \
    print_error("\n");                                                                                                 \
    _fail(__FILE__, __LINE__);                                                                                         \
  } while (0)

// cmocka 2 has a macro of this name, which would stand in the way of every function that stops something.
#undef stop

// cmocka 2 tells signed ranges from unsigned ones; 1.1 has one, which is unsigned.
#ifndef assert_uint_in_range
#define assert_uint_in_range assert_in_range
#endif

#endif
