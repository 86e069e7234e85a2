// The rule by which all ranks make the same decision about when an agreed view takes effect.
#include "ep/core/activation.h"

void ep_activation_init(struct ep_activation *activation, uint64_t op, uint64_t epoch, uint32_t step) {
  *activation = (struct ep_activation){.op = op, .epoch = {epoch, epoch}, .lowest = UINT64_MAX, .step = step};
}

uint64_t ep_activation_epoch(const struct ep_activation *activation, uint64_t op) {
  return activation->epoch[op > activation->op];
}

void ep_activation_receive(struct ep_activation *activation, uint64_t ready) {
  if (ready < activation->lowest)
    activation->lowest = ready;
}

void ep_activation_adopt(struct ep_activation *activation, uint64_t epoch) {
  activation->epoch[0] = epoch;
  if (activation->epoch[1] < epoch)
    activation->epoch[1] = epoch;
  activation->lowest = UINT64_MAX;
}

static bool step_begins(const struct ep_activation *activation, uint64_t op) {
  return op % activation->step == 0;
}

uint64_t ep_activation_close(struct ep_activation *activation) {
  uint64_t now = activation->epoch[0], next = activation->epoch[1], decided = next;
  bool newer = activation->lowest != UINT64_MAX && activation->lowest > next;
  if (now == next && newer && step_begins(activation, activation->op + EP_ACTIVATION_LEAD))
    decided = activation->lowest;
  activation->op++;
  activation->epoch[0] = next;
  activation->epoch[1] = decided;
  activation->lowest = UINT64_MAX;
  return decided > next ? decided : 0;
}

// This happens if a rank published an earlier start to one of the two and died before the other one saw its decision.
bool ep_activation_missed(uint64_t op, uint64_t start, uint64_t start_flag) {
  return start > op + 1 && start_flag >= start;
}

enum ep_look ep_activation_look(uint64_t op, bool down, uint64_t flag, uint64_t start, uint64_t start_flag) {
  if (flag != op + 1 && ep_activation_missed(op, start, start_flag))
    return EP_LOOK_PASS;
  if (flag > op)
    return EP_LOOK_RECEIVE;
  return down ? EP_LOOK_LOSE : EP_LOOK_WAIT;
}

bool ep_activation_must_publish(uint64_t published, uint64_t op) {
  return published == 0 || published > op + 1;
}

bool ep_activation_isolated(uint32_t silent, uint32_t members) {
  return 2 * silent > members;
}
