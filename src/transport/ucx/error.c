// Weft's error codes for UCX's status codes.
#include <stdarg.h>
#include <stdio.h>

#include "base/fail.h"
#include "transport/ucx/ucx.h"

int ucx_code(ucs_status_t status) {
  switch (status) {
  case UCS_ERR_NO_MEMORY:
    return WEFT_ERR_NOMEM;
  case UCS_ERR_CANCELED: // its endpoint was closed by force
  case UCS_ERR_CONNECTION_RESET:
  case UCS_ERR_ENDPOINT_TIMEOUT:
  case UCS_ERR_NOT_CONNECTED:
  case UCS_ERR_TIMED_OUT:
  case UCS_ERR_REJECTED:
  case UCS_ERR_SHMEM_SEGMENT: // of a process that is gone
    return WEFT_ERR_PEER_LOST;
  case UCS_ERR_UNSUPPORTED:
  case UCS_ERR_NOT_IMPLEMENTED:
    return WEFT_ERR_UNSUPPORTED;
  case UCS_ERR_INVALID_PARAM:
    return WEFT_ERR_INVALID;
  default:
    return WEFT_ERR_UNREACHABLE;
  }
}

int ucx_fail(ucs_status_t status, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return fail(ucx_code(status), "%s: %s", text, ucs_status_string(status));
}
