// The version of the library.
#include <weft/weft.h>

#define TEXT(x)       #x
#define JOIN(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *weft_version(void) {
  return JOIN(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
}

uint32_t weft_version_number(void) {
  return WEFT_VERSION_NUMBER;
}
