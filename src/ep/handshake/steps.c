#include "ep/handshake/steps.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"
#include "ep/remote/remote_link.h"

void ep_talk_begin(struct ep_talk *talk, int socket) {
  *talk = (struct ep_talk){.socket = socket, .stage = EP_TALK_SILENT};
}

int ep_talk_handshake(struct ep_talk *talk, bool calls, const uint8_t key[SECRET_KEY_SIZE]) {
  int rc = talk->tls ? 0 : tls_open(&talk->tls, talk->socket, calls, EP_TALK_PROTOCOL, key);
  if (rc != 0)
    return rc;
  talk->stage = EP_TALK_BEGUN;
  rc = tls_handshake(talk->tls);
  if (rc > 0 && tls_is_proved(talk->tls))
    talk->stage = EP_TALK_KNOWN;
  if (rc != 0)
    return rc;
  talk->heard = calloc(1, sizeof *talk->heard);
  if (!talk->heard)
    return fail(WEFT_ERR_NOMEM, "no memory for a greeting");
  talk->stage = EP_TALK_PROVED;
  return 0;
}

int ep_talk_say(struct ep_talk *talk, const struct ep_far_greeting *greeting) {
  while (talk->num_said < sizeof *greeting) {
    size_t sent = 0;
    int rc = tls_write(talk->tls, (const char *)greeting + talk->num_said, sizeof *greeting - talk->num_said, &sent);
    if (rc != 0)
      return rc;
    talk->num_said += sent;
  }
  return 0;
}

int ep_talk_hear(struct ep_talk *talk) {
  while (!ep_far_is_whole(talk->heard, talk->num_heard)) {
    size_t got = 0;
    int rc = tls_read(talk->tls, (char *)talk->heard + talk->num_heard, sizeof *talk->heard - talk->num_heard, &got);
    if (rc != 0)
      return rc;
    talk->num_heard += got;
  }
  return 0;
}

void ep_talk_give(struct ep_talk *talk, struct ep_link *link) {
  link->socket = talk->socket;
  link->remote->tls = talk->tls;
  talk->socket = -1;
  talk->tls = NULL;
}

void ep_talk_take_back(struct ep_talk *talk, struct ep_link *link) {
  talk->socket = link->socket;
  talk->tls = link->remote->tls;
  link->socket = -1;
  link->remote->tls = NULL;
}

void ep_talk_end(struct ep_talk *talk) {
  tls_close(talk->tls);
  free(talk->heard);
  if (talk->socket >= 0)
    close(talk->socket);
  *talk = (struct ep_talk){.socket = -1};
}
