// The failure of the calling thread: a code and a sentence.
#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL_SIZE = FAIL_DETAIL_SIZE };

static _Thread_local char own_detail[DETAIL_SIZE];

char *fail_detail(void) {
  return own_detail;
}

static fail_detail_fn *place = fail_detail;

void fail_share(fail_detail_fn *detail) {
  place = detail;
}

const char *weft_last_error(void) {
  return place();
}

const char *weft_strerror(int err) {
  switch (err) {
  case WEFT_OK:
    return "success";
#define TEXT(name, value, scope, exit_status, text)                                                                    \
  case WEFT_ERR_##name:                                                                                                \
    return text;
    WEFT_ERR_MAP(TEXT)
#undef TEXT
  default:
    return "unknown error";
  }
}

const char *weft_err_name(int err) {
  switch (err) {
  case WEFT_OK:
    return "OK";
#define NAME(name, value, scope, exit_status, text)                                                                    \
  case WEFT_ERR_##name:                                                                                                \
    return #name;
    WEFT_ERR_MAP(NAME)
#undef NAME
  default:
    return "UNKNOWN";
  }
}

enum weft_scope weft_err_scope(int err) {
  switch (err) {
#define SCOPE(name, value, scope, exit_status, text)                                                                   \
  case WEFT_ERR_##name:                                                                                                \
    return WEFT_SCOPE_##scope;
    WEFT_ERR_MAP(SCOPE)
#undef SCOPE
  default:
    return WEFT_SCOPE_NONE;
  }
}

int weft_err_exit_status(int err) {
  switch (err) {
  case WEFT_OK:
    return 0;
#define STATUS(name, value, scope, exit_status, text)                                                                  \
  case WEFT_ERR_##name:                                                                                                \
    return exit_status;
    WEFT_ERR_MAP(STATUS)
#undef STATUS
  default:
    return 1;
  }
}

// The limit to raise when a limit of the system was reached.
static const char *hint_of_errno(int value) {
  switch (value) {
  case EMFILE:
    return " (raise ulimit -n)";
  case ENFILE:
    return " (raise the system's fs.file-max)";
  case ENOMEM:
    return " (raise ulimit -v, or the memory limit of the control group)";
  case EFBIG:
    return " (raise the limit of file sizes, ulimit -f)";
  default:
    return "";
  }
}

int fail(int err, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(place(), DETAIL_SIZE, format, args);
  va_end(args);
  return err;
}

static int code_of_errno(int value) {
  switch (value) {
  case ENOMEM:
    return WEFT_ERR_NOMEM;
  case EMFILE:
  case ENFILE:
  case ENOSPC:
  case EDQUOT:
  case EFBIG:
    return WEFT_ERR_LIMIT;
  default:
    return WEFT_ERR_SYSTEM;
  }
}

int fail_errno(int errno_value, const char *format, ...) {
  char *detail = place();
  va_list args;
  va_start(args, format);
  int used = vsnprintf(detail, DETAIL_SIZE, format, args);
  va_end(args);
  if (used >= 0 && used < DETAIL_SIZE) {
    char text[128];
    snprintf(detail + used, (size_t)(DETAIL_SIZE - used), ": %s%s", strerror_r(errno_value, text, sizeof text),
             hint_of_errno(errno_value));
  }
  return code_of_errno(errno_value);
}

int fail_thread(int error, const char *what) {
  if (error != EAGAIN)
    return fail_errno(error, "cannot start %s", what);
  return fail(
      WEFT_ERR_LIMIT,
      "cannot start %s: no more threads are allowed (raise ulimit -u, or the process limit of the control group)",
      what);
}

int fail_context(int err, const char *format, ...) {
  char *detail = place();
  char inner[DETAIL_SIZE - 2]; // as much as ": " leaves room for
  memcpy(inner, detail, sizeof inner);
  inner[sizeof inner - 1] = '\0';
  va_list args;
  va_start(args, format);
  int used = vsnprintf(detail, DETAIL_SIZE, format, args);
  va_end(args);
  if (used >= 0 && used < DETAIL_SIZE)
    snprintf(detail + used, (size_t)(DETAIL_SIZE - used), ": %s", inner);
  return err;
}
