#include "ep/activation.h"

void ep_activation_init(struct ep_activation *activation, uint64_t op, uint64_t epoch) {
  *activation = (struct ep_activation){.op = op, .epoch = {epoch, epoch}, .lowest = UINT64_MAX};
}

uint64_t ep_activation_epoch(const struct ep_activation *activation, uint64_t op) {
  return activation->epoch[op > activation->op];
}

void ep_activation_hear(struct ep_activation *activation, uint64_t ready) {
  if (ready < activation->lowest)
    activation->lowest = ready;
}

void ep_activation_adopt(struct ep_activation *activation, uint64_t epoch) {
  activation->epoch[0] = epoch;
  if (activation->epoch[1] < epoch)
    activation->epoch[1] = epoch;
  activation->lowest = UINT64_MAX;
}

uint64_t ep_activation_close(struct ep_activation *activation) {
  uint64_t now = activation->epoch[0], next = activation->epoch[1], decided = next;
  if (now == next && activation->lowest != UINT64_MAX && activation->lowest > next)
    decided = activation->lowest;
  activation->op++;
  activation->epoch[0] = next;
  activation->epoch[1] = decided;
  activation->lowest = UINT64_MAX;
  return decided > next ? decided : 0;
}
