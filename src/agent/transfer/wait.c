// Waits for transfers, makes them end early, and reports their results.
#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/progress/progress.h"
#include "agent/transfer/transfer.h"
#include "base/fail.h"
#include "base/sized.h"
#include "base/time/clock.h"
#include "base/time/ticks.h"

// Sleeps until the transfer has ended or the time has come; may wake earlier.
static void sleep_on(weft_transfer_t *transfer, uint64_t until_ns) {
  if (!transfer->agent->has_thread) {
    agent_sleep(transfer->agent, until_ns);
    return;
  }
  int state = atomic_load(&transfer->state);
  while (state > 0 && (state & AGENT_IN_FLIGHT) && !(state & AGENT_SLEEPER))
    if (atomic_compare_exchange_weak(&transfer->state, &state, state | AGENT_SLEEPER))
      state |= AGENT_SLEEPER;
  if (state <= 0 || !(state & AGENT_SLEEPER))
    return;
  struct timespec left = clock_timespec(clock_left_ns(until_ns));
  syscall(SYS_futex, &transfer->state, FUTEX_WAIT_PRIVATE, state, &left, NULL, 0);
}

// Whether post `number` is in flight. Another thread may post again as soon as it has ended.
static bool post_flies(weft_transfer_t *transfer, uint64_t number) {
  return agent_transfer_flies(transfer) && atomic_load(&transfer->number) == number;
}

// 0: post `number` has ended. 1: it has not.
static int await_end(weft_transfer_t *transfer, uint64_t number, uint32_t timeout_ms) {
  uint64_t begun = clock_ns(), until = clock_wait_deadline(timeout_ms);
  uint64_t spin_until = begun + transfer->agent->options.spin_us * UINT64_C(1000);
  while (post_flies(transfer, number)) {
    agent_drive(transfer->agent);
    if (!post_flies(transfer, number))
      break;
    uint64_t now = clock_ns();
    if (agent_transfer_left_ns(transfer) == 0)
      agent_transfer_stop(transfer, number, WEFT_ERR_TIMEOUT);
    if (!transfer->agent->has_thread)
      agent_housekeep_if_due(transfer->agent, now);
    if (now >= until)
      return 1;
    if (now >= spin_until)
      sleep_on(transfer, until);
  }
  return 0;
}

int weft_transfer_wait(weft_transfer_t *transfer, uint32_t timeout_ms) {
  int rc = weft_transfer_poll(transfer);
  if (rc != 1)
    return rc;
  int late = await_end(transfer, atomic_load(&transfer->number), timeout_ms);
  return late ? 1 : weft_transfer_poll(transfer);
}

int weft_transfer_cancel(weft_transfer_t *transfer, uint32_t timeout_ms) {
  if (!transfer)
    return fail(WEFT_ERR_INVALID, "the transfer is NULL");
  int closed = agent_life_check(transfer->life, "the transfer");
  if (closed != 0)
    return closed;
  uint64_t number = atomic_load(&transfer->number);
  if (!post_flies(transfer, number))
    return 0;
  agent_transfer_stop(transfer, number, WEFT_ERR_CANCELED);
  if (await_end(transfer, number, timeout_ms) == 0)
    return 0;
  return fail(WEFT_ERR_TIMEOUT, "the transfer with %s cannot be stopped within %u ms; it will end by itself",
              transfer->peer->name, timeout_ms);
}

int weft_transfer_fd(weft_transfer_t *transfer, int *fd) {
  if (!transfer || !fd)
    return fail(WEFT_ERR_INVALID, "the transfer or fd is NULL");
  int closed = agent_life_check(transfer->life, "the transfer");
  if (closed != 0)
    return closed;
  if (transfer->event_fd < 0) {
    int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0)
      return fail_errno(errno, "cannot make an event descriptor");
    transfer->event_fd = made;
    transfer->begin_state |= AGENT_EVENT;
    int state = atomic_load(&transfer->state);
    while (state > 0 && (state & AGENT_IN_FLIGHT))
      if (atomic_compare_exchange_weak(&transfer->state, &state, state | AGENT_EVENT))
        break;
  }
  *fd = transfer->event_fd;
  return 0;
}

int weft_transfer_status(weft_transfer_t *transfer, int32_t *status, uint32_t cap, uint32_t *count) {
  if (!transfer || !count || (cap > 0 && !status))
    return fail(WEFT_ERR_INVALID, "the transfer, the status or the count is NULL");
  int closed = agent_life_check(transfer->life, "the transfer");
  if (closed != 0)
    return closed;
  int state = atomic_load_explicit(&transfer->state, memory_order_acquire);
  if (state > 0)
    return state & AGENT_IN_FLIGHT ? fail(WEFT_ERR_BUSY, "the transfer is in flight")
                                   : fail(WEFT_ERR_INVALID, "the transfer has not been posted");
  for (uint32_t i = 0; i < cap && i < transfer->num_pairs; i++)
    status[i] = state == 0 ? 0 : transfer->status[transfer->piece_of ? transfer->piece_of[i] : i];
  *count = transfer->num_pairs;
  return 0;
}

const char *weft_transfer_error(weft_transfer_t *transfer) {
  return transfer && atomic_load(&transfer->state) < 0 ? transfer->why : "";
}

const char *weft_transfer_explain(weft_transfer_t *transfer) {
  return transfer ? transfer->explanation : "";
}

int weft_transfer_estimate(weft_transfer_t *transfer, uint64_t *ns) {
  if (!transfer || !ns)
    return fail(WEFT_ERR_INVALID, "the transfer or ns is NULL");
  int closed = agent_life_check(transfer->life, "the transfer");
  if (closed != 0)
    return closed;
  *ns = transfer->estimate_ns;
  return 0;
}

int weft_transfer_get_info(weft_transfer_t *transfer, struct weft_transfer_info *out) {
  int rc = transfer ? agent_life_check(transfer->life, "the transfer") : fail(WEFT_ERR_INVALID, "the transfer is NULL");
  if (rc == 0)
    rc = sized_check_output(out, SIZED_END(struct weft_transfer_info, transport), "weft_transfer_info");
  if (rc != 0)
    return rc;
  struct weft_transfer_info info = {.size = sizeof info,
                                    .bytes = transfer->bytes,
                                    .posts = atomic_load(&transfer->number),
                                    .estimate_ns = transfer->estimate_ns,
                                    .pairs = transfer->num_pairs,
                                    .pieces = transfer->num_pieces};
  snprintf(info.transport, sizeof info.transport, "%s", transfer->link->worker->transport->name);
  if (info.posts > 0) {
    int state = atomic_load_explicit(&transfer->state, memory_order_acquire);
    info.start_ns = clock_ns() - ticks_to_ns(ticks_now() - transfer->posted_ticks);
    info.end_ns = state > 0 ? 0 : info.start_ns + ticks_to_ns(transfer->took_ticks);
  }
  sized_write(out, &info, sizeof info);
  return 0;
}
