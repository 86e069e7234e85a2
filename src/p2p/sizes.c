// Sizes in words.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "p2p/p2p.h"

enum { MAX_SHIFT = 40 };

// K, M, G or T, with B or iB behind it or not: powers of 1024 all.
static bool parse_unit(const char *unit, size_t size, int *shift) {
  static const char letters[] = "KMGT";
  *shift = 0;
  if (size == 0 || (size == 1 && (*unit == 'B' || *unit == 'b')))
    return true;
  const char *letter = strchr(letters, *unit >= 'a' ? *unit - 'a' + 'A' : *unit);
  bool rest = size == 1 || (size == 2 && strncasecmp(unit + 1, "B", 1) == 0) ||
              (size == 3 && strncasecmp(unit + 1, "iB", 2) == 0);
  if (!letter || !*letter || !rest)
    return false;
  *shift = 10 * (int)(letter - letters + 1);
  return true;
}

static bool parse_one(const char *text, size_t size, uint64_t *bytes) {
  size_t digits = strspn(text, "0123456789");
  int shift;
  digits = digits < size ? digits : size;
  if (digits == 0 || digits > 15 || !parse_unit(text + digits, size - digits, &shift))
    return false;
  *bytes = strtoull(text, NULL, 10) << shift;
  return *bytes > 0 && *bytes >> shift == strtoull(text, NULL, 10) && *bytes <= UINT64_C(1) << MAX_SHIFT;
}

int p2p_sizes_parse(const char *text, struct p2p_sizes *sizes) {
  *sizes = (struct p2p_sizes){0};
  for (const char *at = text;; at++) {
    size_t size = strcspn(at, ",");
    if (sizes->count == P2P_MAX_SIZES)
      return fail(WEFT_ERR_INVALID, "more than %d sizes", P2P_MAX_SIZES);
    uint64_t *bytes = &sizes->bytes[sizes->count++];
    if (!parse_one(at, size, bytes))
      return fail(
          WEFT_ERR_INVALID,
          "\"%.*s\" is not a size: want 1 to 1TB, a number with B, KB, MB, GB or TB (powers of 1024) behind it, "
          "and commas between several",
          (int)(size < 40 ? size : 40), at);
    if (*bytes > sizes->largest)
      sizes->largest = *bytes;
    at += size;
    if (!*at)
      return 0;
  }
}

const char *p2p_size_text(uint64_t bytes, char *out, size_t cap) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    unit++;
  }
  snprintf(out, cap, "%" PRIu64 " %s", bytes, units[unit]);
  return out;
}
