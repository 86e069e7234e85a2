// Posts with separate settings: a notification, a deadline, a completion with a tag. Such a post changes the transfer
// and starts it as every post does; the next post first restores the transfer as it was made. Nothing is allocated: the
// room for notifications, and the request that carries one, were made with the transfer.
#include <inttypes.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/peer/message.h"
#include "agent/transfer/post.h"
#include "base/fail.h"
#include "base/sized.h"
#include "base/time/ticks.h"

// Sets the size of the notification in the request that carries it.
static void set_size(weft_transfer_t *transfer, uint32_t size) {
  transfer->message_size = AGENT_HEADER + size;
  struct agent_post *carrier = transfer->sender ? transfer->sender : &transfer->all_parts[transfer->num_all - 1];
  carrier->request.message_size = transfer->message_size;
}

static void set_timeout(weft_transfer_t *transfer, uint32_t timeout_ms) {
  transfer->timeout_ns = timeout_ms * UINT64_C(1000000);
  atomic_store_explicit(&transfer->timeout_ticks, ticks_of_ns(transfer->timeout_ns), memory_order_relaxed);
}

void agent_transfer_as_made(weft_transfer_t *transfer) {
  const struct agent_made *made = &transfer->made;
  transfer->special = false;
  transfer->begin_state &= ~AGENT_COMPLETES;
  set_timeout(transfer, made->timeout_ms);
  transfer->parts = transfer->all_parts;
  transfer->message = made->notifies ? transfer->note : NULL;
  transfer->outgoing = made->notifies ? transfer->sender : NULL;
  if (made->notifies && made->copy) {
    memcpy(transfer->note + AGENT_HEADER, made->copy, made->size);
    set_size(transfer, made->size);
  }
}

// Lets the transfer carry the notification of the post, in place of its own one if it has one.
static void notify(weft_transfer_t *transfer, const struct weft_post *post) {
  if (post->notification_size > 0)
    memcpy(transfer->note + AGENT_HEADER, post->notification, post->notification_size);
  set_size(transfer, post->notification_size);
  transfer->message = transfer->note;
  transfer->outgoing = transfer->sender;
  transfer->parts = transfer->all_parts + (transfer->num_all - transfer->num_parts);
}

static int check(const weft_transfer_t *transfer, const struct weft_post *post) {
  if (post->flags & ~(uint32_t)WEFT_POST_COMPLETION)
    return fail(WEFT_ERR_INVALID, "flags of the post are 0x%x, and 0x%x is none of enum weft_post_flag", post->flags,
                post->flags & ~(uint32_t)WEFT_POST_COMPLETION);
  if (post->reserved != 0)
    return fail(WEFT_ERR_INVALID, "reserved is %u, and has to be 0", post->reserved);
  if (!post->notification)
    return post->notification_size == 0
               ? 0
               : fail(WEFT_ERR_INVALID, "notification_size is %u, but notification is NULL", post->notification_size);
  if (transfer->made.room == 0)
    return fail(WEFT_ERR_INVALID, "the transfer was made without room for notifications of its posts: want "
                                  "weft_transfer_options.max_notification");
  if (post->notification_size > transfer->made.room)
    return fail(WEFT_ERR_INVALID, "the notification has %u bytes, and the transfer was made for %u",
                post->notification_size, transfer->made.room);
  return 0;
}

int weft_transfer_post_with(weft_transfer_t *transfer, const struct weft_post *given) {
  if (!transfer)
    return fail(WEFT_ERR_INVALID, "the transfer is NULL");
  struct weft_post copy;
  const struct weft_post *post = SIZED_READ(given, &copy, tag, "weft_post");
  int rc = post ? agent_transfer_may_post(transfer) : sized_refusal(given, sizeof copy);
  if (rc == 0)
    rc = check(transfer, post);
  if (rc != 0)
    return rc;
  bool completes = post->flags & WEFT_POST_COMPLETION;
  if (completes && !agent_completion_owe(transfer, post->tag))
    return fail(WEFT_ERR_BUSY, "the completion of an earlier post, with tag %" PRIu64 ", has not been taken",
                transfer->completion.tag);
  if (transfer->special)
    agent_transfer_as_made(transfer);
  transfer->special = true;
  if (post->notification)
    notify(transfer, post);
  if (post->timeout_ms > 0)
    set_timeout(transfer, post->timeout_ms);
  transfer->begin_state |= completes ? AGENT_COMPLETES : 0;
  rc = agent_transfer_launch(transfer);
  if (rc != 0 && completes)
    atomic_store_explicit(&transfer->completion.owed, false, memory_order_relaxed);
  return rc;
}
