// Weft's error codes for libfabric's errors.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "transport/ofi/ofi.h"

int ofi_code(int error) {
  switch (abs(error)) {
  case FI_ENOMEM:
    return WEFT_ERR_NOMEM;
  case FI_ECANCELED: // its connection ended
  case FI_ECONNRESET:
  case FI_ECONNREFUSED:
  case FI_ECONNABORTED:
  case FI_ENOTCONN:
  case FI_ESHUTDOWN:
  case FI_EHOSTUNREACH:
  case FI_EHOSTDOWN:
  case FI_ENETUNREACH:
  case FI_ETIMEDOUT:
  case EPIPE:
  case FI_EIO: // of shm, whose peer has died
    return WEFT_ERR_PEER_LOST;
  case FI_ENOSYS:
  case FI_EOPNOTSUPP:
    return WEFT_ERR_UNSUPPORTED;
  case FI_EACCES:
  case FI_ENOKEY:
  case FI_EKEYREJECTED:
    return WEFT_ERR_NOT_FOUND; // no such region there any more
  case FI_EINVAL:
    return WEFT_ERR_INVALID;
  default:
    return WEFT_ERR_UNREACHABLE;
  }
}

int ofi_fail(int error, const char *format, ...) {
  char text[300];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return fail(ofi_code(error), "%s: %s", text, fi_strerror(abs(error)));
}
