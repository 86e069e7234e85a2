// All requests of a link, for every carrier.
#include "ep/remote/requests.h"

int ep_request_prepare(struct ep_remote *remote, struct ep_post *post, void (*ended)(struct ep_post *post, int err),
                       void *part, struct transport_piece *pieces, uint32_t num_pieces) {
  post->remote = remote;
  post->ended = ended;
  post->part = part;
  post->request.peer = remote->peer;
  post->request.op = WEFT_TRANSFER_WRITE;
  post->request.pieces = pieces;
  post->request.num_pieces = num_pieces;
  int rc = remote->net->transport->prepare(&post->request);
  post->prepared = rc == 0;
  return rc;
}

int ep_message_prepare(struct ep_remote *remote, struct ep_message *message,
                       void (*ended)(struct ep_post *post, int err), void *part, struct transport_piece *pieces,
                       uint32_t num_pieces) {
  message->post.request.message = &message->update;
  message->post.request.message_size = sizeof message->update;
  return ep_request_prepare(remote, &message->post, ended, part, pieces, num_pieces);
}

static bool cancel(const struct ep_remote *remote, struct ep_post *post) {
  if (post->in_flight)
    remote->net->transport->cancel(&post->request);
  return false;
}

static bool under_way(const struct ep_remote *remote, struct ep_post *post) {
  (void)remote;
  return post->in_flight;
}

static bool unprepare(const struct ep_remote *remote, struct ep_post *post) {
  if (post->prepared)
    remote->net->transport->unprepare(&post->request);
  post->prepared = false;
  return false;
}

void ep_requests_cancel(struct ep_remote *remote) {
  remote->ep->engine->carrier->each(remote, cancel);
}

bool ep_requests_under_way(const struct ep_remote *remote) {
  return remote->ep->engine->carrier->each(remote, under_way);
}

void ep_requests_unprepare(struct ep_remote *remote) {
  remote->ep->engine->carrier->each(remote, unprepare);
}
