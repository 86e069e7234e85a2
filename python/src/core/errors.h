// Failures of libweft as exceptions of Python.
#pragma once

#include <string>
#include <weft/weft.h>

// Raises the exception of weft.errors for `code`. The GIL is held. `rows_needed` and `op` become attributes of the
// exception where they are known.
struct Failure {
  int code = 0;
  std::string sentence;
  bool has_op = false;
  uint64_t op = 0;
  uint32_t rows_needed = 0;
};

[[noreturn]] void raise_failure(const Failure &failure);
[[noreturn]] void raise_code(int code, const std::string &sentence);

// Raises for a negative return value, with the last error sentence of the calling thread.
inline void check(int rc) {
  if (rc < 0)
    raise_code(rc, weft_last_error());
}
