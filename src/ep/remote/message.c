// The words that are sent after rows, or alone, to a peer on another host.
#include "ep/remote/requests.h"

void ep_message_add(struct ep_update *update, enum ep_place place, size_t offset, uint64_t value) {
  update->words[update->count++] = (struct ep_word){.place = place, .offset = (uint32_t)offset, .value = value};
}

void ep_message_begin(struct ep_message *message, struct ep_remote *remote) {
  atomic_fetch_add(&remote->messages_sent, 1);
  message->update.link = remote->peer_id;
  message->update.version = EP_LAYOUT_VERSION;
  message->update.count = 0;
}

void ep_message_end(struct ep_message *message) {
  message->post.request.message_size =
      (uint32_t)(offsetof(struct ep_update, words) + message->update.count * sizeof(struct ep_word));
}

void ep_message_add_start(struct ep_update *update, struct ep_remote *remote) {
  uint64_t start = atomic_load_explicit(&remote->start_plus_1, memory_order_acquire);
  if (start == 0)
    return;
  ep_message_add(update, EP_PLACE_AREA, offsetof(struct ep_area_head, start.epoch), atomic_load(&remote->start_epoch));
  ep_message_add(update, EP_PLACE_AREA, offsetof(struct ep_area_head, start.op_plus_1), start);
}
