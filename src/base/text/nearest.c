// Compares names by their edit distance.
#include "base/text/nearest.h"

#include <stdbool.h>
#include <string.h>

enum { LONGEST = 64 }; // longer words are not compared

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

// Optimal string alignment distance, over the three rows of its table that a step needs.
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len) {
  size_t rows[3][LONGEST + 1];
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t j = 0; j <= b_len; j++)
    before[j] = above[j] = j;
  for (size_t i = 1; i <= a_len; i++) {
    row[0] = i;
    for (size_t j = 1; j <= b_len; j++) {
      row[j] = least(above[j] + 1, row[j - 1] + 1);
      row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = least(row[j], before[j - 2] + 1);
    }
    size_t *oldest = before;
    before = above;
    above = row;
    row = oldest;
  }
  return above[b_len];
}

void nearest_offer(struct nearest *nearest, const char *name) {
  size_t wanted_len = strlen(nearest->wanted), name_len = strlen(name);
  if (wanted_len == 0 || wanted_len > LONGEST || name_len > LONGEST)
    return;
  size_t limit = wanted_len / 3 < 2 ? 2 : wanted_len / 3;
  bool begins = wanted_len >= 3 && strncmp(name, nearest->wanted, wanted_len) == 0;
  size_t found = begins ? 1 : distance(nearest->wanted, wanted_len, name, name_len);
  if (found > limit || found >= wanted_len || (nearest->best && found >= nearest->distance))
    return;
  nearest->best = name;
  nearest->distance = found;
}
