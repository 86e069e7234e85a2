// Users write matrices: a matrix is refused with line and column, or its pairs are those of its rows and columns.
#include "bench/traffic/pattern.h"

#include <stdlib.h>
#include <string.h>
#include <weft/err.h>

#include "fuzz/support/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct traffic_pattern pattern = {.shards = size > 0 ? 1 + data[0] % 5 : 1};
  uint32_t workers = size > 1 ? data[1] % 8 : 0;
  if (traffic_matrix_parse(&pattern, (const char *)data, size, "m", workers) != 0) {
    FUZZ_CHECK(strncmp(weft_last_error(), "m:", 2) == 0 || strstr(weft_last_error(), "pieces"));
    free(pattern.pairs);
    return 0;
  }
  FUZZ_CHECK(pattern.ranks > 0 && pattern.ranks <= TRAFFIC_MAX_RANKS && pattern.num_pairs > 0);
  FUZZ_CHECK(workers == 0 || pattern.ranks <= workers);
  for (uint32_t i = 0; i < pattern.num_pairs; i++) {
    const struct traffic_pair *pair = &pattern.pairs[i];
    uint64_t bytes = pair->kinds[0].bytes * pair->kinds[0].count + pair->kinds[1].bytes * pair->kinds[1].count;
    FUZZ_CHECK(pair->from < pattern.ranks && pair->to < pattern.ranks && pair->bytes == bytes);
    FUZZ_CHECK(bytes > 0 && bytes <= TRAFFIC_MAX_PAIR && traffic_pair_pieces(pair) <= pattern.shards);
    FUZZ_CHECK(i == 0 || pair->from > pair[-1].from || (pair->from == pair[-1].from && pair->to > pair[-1].to));
  }
  free(pattern.pairs);
  return 0;
}
