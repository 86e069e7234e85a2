// How the library reports an error: a code, and an error text of the calling thread.
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include <weft/err.h>

// Sets the calling thread's last error to the formatted text and returns `err`.
int fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same with ": " and the text of `errno_value` appended. Returns WEFT_ERR_SYSTEM, or a more specific code (ENOMEM:
// NOMEM; EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG: LIMIT). If a limit was reached, the text says which limit to raise.
int fail_errno(int errno_value, const char *format, ...) __attribute__((format(printf, 2, 3)));

// For pthread_create(): "cannot start `what`"; LIMIT: no more threads are allowed.
int fail_thread(int error, const char *what);

// Puts "context: " before the text of the last error, for a caller that knows which operation failed; returns `err`.
int fail_context(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A plug-in has its own copy of this code. The library calls this once when it loads the plug-in; then the copy writes
// its error texts to the library's own place: the FAIL_DETAIL_SIZE bytes of the calling thread that `detail` returns.
enum { FAIL_DETAIL_SIZE = 1024 };
typedef char *fail_detail_fn(void);
void fail_share(fail_detail_fn *detail);
fail_detail_fn fail_detail; // the library's

#endif
