// The adjustment of Benjamini and Hochberg.
#include "compare/statistics/discoveries.h"

#include <math.h>
#include <stdlib.h>

#include <weft/err.h>

#include "base/fail.h"

struct place {
  double chance;
  size_t index;
};

static int falling(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  return (x->chance < y->chance) - (x->chance > y->chance);
}

int discoveries_adjust(const double *chances, double *adjusted, size_t count) {
  struct place *places = malloc((count ? count : 1) * sizeof *places);
  if (!places)
    return fail(WEFT_ERR_NOMEM, "no memory to compare");
  for (size_t i = 0; i < count; i++)
    places[i] = (struct place){chances[i], i};
  qsort(places, count, sizeof *places, falling);
  double least = 1;
  for (size_t i = 0; i < count; i++) { // begins with the largest chance, whose rank is `count`
    least = fmin(least, places[i].chance * (double)count / (double)(count - i));
    adjusted[places[i].index] = least;
  }
  free(places);
  return 0;
}
