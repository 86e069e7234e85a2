// Turns the metadata of a worker's agent into text and back.
#include "bench/common/card.h"

#include <stdlib.h>

#include "base/fail.h"
#include "store/base64.h"

enum { MOST_DIGITS = 2 << 20 };

int bench_card_make(weft_agent_t *agent, json_t **card) {
  size_t size = 0;
  int err = weft_agent_metadata(agent, NULL, NULL, 0, &size);
  if (err && err != WEFT_ERR_ROOM)
    return err;
  char *blob = malloc(size), *digits = malloc(BASE64_SIZE(size) + 1);
  err = blob && digits ? weft_agent_metadata(agent, NULL, blob, size, &size)
                       : fail(WEFT_ERR_NOMEM, "no memory for an agent's metadata");
  if (!err) {
    base64_encode(digits, blob, size);
    *card = json_stringn(digits, BASE64_SIZE(size));
    err = *card ? 0 : fail(WEFT_ERR_NOMEM, "no memory for an agent's metadata");
  }
  free(blob);
  free(digits);
  return err;
}

int bench_card_load(weft_agent_t *agent, const json_t *card, weft_peer_t *peer) {
  size_t length = json_string_length(card), size = 0;
  if (!json_is_string(card) || length == 0 || length > MOST_DIGITS)
    return fail(WEFT_ERR_PROTOCOL, "it sent no metadata of its agent: is it of another version?");
  void *blob = malloc(length / 4 * 3 + 1);
  int err = blob ? 0 : fail(WEFT_ERR_NOMEM, "no memory for an agent's metadata");
  if (!err && !base64_decode(blob, &size, json_string_value(card), length))
    err = fail(WEFT_ERR_PROTOCOL, "the metadata of its agent is not base64: is it of another version?");
  if (!err)
    err = weft_agent_load(agent, blob, size, peer);
  free(blob);
  return err;
}
