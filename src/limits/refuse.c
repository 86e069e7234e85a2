// Checks whether a figure can be true.
#include <stdio.h>

#include "limits/limits.h"

// A measured bound is only as exact as its measurement.
#define TOLERANCE 1.05
#define SHORT_S   1e-3

// Leaves out the bound if it is not known.
static void write_marked(const struct limits_claim *claim, const char *mark, char *why, size_t cap) {
  if (claim->bound.gbps > 0)
    snprintf(why, cap, "%.4g GB/s: %s (the bound of %s is %.4g GB/s)", claim->gbps, mark, claim->bound.name,
             claim->bound.gbps);
  else
    snprintf(why, cap, "%.4g GB/s: %s", claim->gbps, mark);
}

static const char *mark_of(const struct limits_claim *claim) {
  if (claim->same_gpu)
    return "both ends are on one GPU, so the bytes were copied within its memory and crossed no link";
  if (claim->cached)
    return "the page cache served the file, so this is the speed of memory, not of the disk";
  return NULL;
}

bool limits_refuse(const struct limits_claim *claim, char *why, size_t cap) {
  const struct limits_bound *bound = &claim->bound;
  const char *mark = mark_of(claim);
  if (mark) {
    write_marked(claim, mark, why, cap);
    return true;
  }
  if (bound->gbps <= 0 || claim->gbps <= bound->gbps * TOLERANCE)
    return false;
  if (claim->window_s > 0 && claim->window_s < SHORT_S)
    snprintf(why, cap,
             "%.4g GB/s is above the bound of %s, %.4g GB/s: it was measured in %.3g us, but less than 1 ms is too "
             "short; want more iterations",
             claim->gbps, bound->name, bound->gbps, claim->window_s * 1e6);
  else
    snprintf(why, cap, "%.4g GB/s is above the bound of %s, %.4g GB/s (%s)%s", claim->gbps, bound->name, bound->gbps,
             bound->measured ? "measured" : "described by the hardware",
             bound->measured
                 ? ": if the host was busy when the bound was measured, measure it again with 'weft bench limits'"
                 : "");
  return true;
}

double limits_percent(const struct limits_bound *bound, double gbps) {
  return bound->gbps > 0 ? 100 * gbps / bound->gbps : -1;
}
