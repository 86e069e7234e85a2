// Judges whether the initiators moved data at the same time.
#include "bench/transfer/window.h"

#include <stdio.h>

void transfer_window_add(struct transfer_window *window, int64_t begin, int64_t end) {
  window->begin = begin > window->begin ? begin : window->begin;
  window->end = end < window->end ? end : window->end;
  window->first = begin < window->first ? begin : window->first;
  window->last = end > window->last ? end : window->last;
  window->shortest = end - begin < window->shortest ? end - begin : window->shortest;
  window->initiators++;
}

double transfer_window_ns(const struct transfer_window *window) {
  return window->initiators > 0 && window->end > window->begin ? (double)(window->end - window->begin) : 0;
}

bool transfer_window_is_narrow(const struct transfer_window *window) {
  return window->last > window->first &&
         transfer_window_ns(window) < TRANSFER_LEAST_SPREAD * (double)(window->last - window->first);
}

bool transfer_window_holds(const struct transfer_window *window, uint64_t fewest, const char *advice, char *why,
                           size_t cap) {
  double ns = transfer_window_ns(window);
  advice = advice ? advice : "want more iterations (--num_iter)";
  if (window->initiators == 0 || (window->initiators == 1 && ns > 0))
    return true;
  if (ns <= 0)
    snprintf(why, cap, "at no time were all initiators active: %s", advice);
  else if (ns < TRANSFER_LEAST_OVERLAP * (double)window->shortest)
    snprintf(why, cap,
             "all initiators were active at the same time for only %.3g us, of the %.3g us of the quickest, which is "
             "less than %.0f %%: %s",
             ns / 1e3, (double)window->shortest / 1e3, 100 * TRANSFER_LEAST_OVERLAP, advice);
  else if (fewest == 0)
    snprintf(why, cap, "no request of one initiator ended in the %.3g us in which all were active: %s", ns / 1e3,
             advice);
  else
    return true;
  return false;
}
