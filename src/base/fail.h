// How the library reports a failure: a code, and a sentence for the calling thread.
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include <weft/err.h>

// Sets the calling thread's last error to the formatted sentence and returns `err`.
int fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The same with ": " and the text of `errno_value` behind the sentence; returns WEFT_ERR_SYSTEM, or the code that
// fits better (ENOMEM: NOMEM; EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG: LIMIT). Where a limit was hit it says what to
// raise.
int fail_errno(int errno_value, const char *format, ...) __attribute__((format(printf, 2, 3)));

// For pthread_create(): "cannot start `what`"; LIMIT where no more threads are allowed.
int fail_thread(int error, const char *what);

// Puts "context: " before the last error's sentence, for a caller that knows what was being done; returns `err`.
int fail_context(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A plug-in has a copy of this code. Told so once when it is loaded, the copy writes its sentences where the library's
// own stand: into what `detail` returns, FAIL_DETAIL_SIZE bytes of the calling thread.
enum { FAIL_DETAIL_SIZE = 1024 };
typedef char *fail_detail_fn(void);
void fail_share(fail_detail_fn *detail);
fail_detail_fn fail_detail; // the library's

#endif
