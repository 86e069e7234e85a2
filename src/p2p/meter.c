// Records and interpolates the progress of a load.
#include "p2p/meter.h"

// When the list is full, every second stamp is dropped, and from then on only half as many looks are kept.
void p2p_meter_add(struct p2p_meter *meter, uint64_t ns, uint64_t ended) {
  meter->last = (struct p2p_stamp){ns, ended};
  if (meter->looks++ % meter->every != 0)
    return;
  if (meter->count == P2P_STAMPS) {
    for (uint32_t i = 0; i < P2P_STAMPS / 2; i++)
      meter->list[i] = meter->list[2 * i];
    meter->count = P2P_STAMPS / 2;
    meter->every *= 2;
  }
  meter->list[meter->count++] = meter->last;
}

// The number of transfers that had ended by then, interpolated between two stamps.
static double ended_at(const struct p2p_meter *meter, uint64_t ns) {
  struct p2p_stamp before = meter->list[0], after = meter->last;
  for (uint32_t i = 0; i < meter->count; i++) {
    after = meter->list[i];
    if (after.ns > ns)
      break;
    before = after;
    after = meter->last;
  }
  if (ns <= before.ns || after.ns <= before.ns)
    return (double)before.ended;
  if (ns >= after.ns)
    return (double)after.ended;
  return (double)before.ended +
         (double)(after.ended - before.ended) * (double)(ns - before.ns) / (double)(after.ns - before.ns);
}

double p2p_meter_between(const struct p2p_meter *meter, uint64_t from, uint64_t until) {
  return until > from ? ended_at(meter, until) - ended_at(meter, from) : 0;
}
