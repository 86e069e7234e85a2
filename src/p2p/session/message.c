// Messages as JSON: sends them, and reads their fields.
#include "p2p/session/message.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

int p2p_send_to(weft_agent_t *agent, weft_peer_t peer, json_t *message) {
  char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
  json_decref(message);
  if (!text)
    return fail(WEFT_ERR_NOMEM, "no memory for a message");
  int rc = weft_agent_notify(agent, peer, text, (uint32_t)strlen(text));
  free(text);
  return rc;
}

int p2p_number(const json_t *message, const char *name, uint64_t *value) {
  char shown[P2P_SHOWN];
  const json_t *field = json_object_get(message, name);
  if (!json_is_integer(field) || json_integer_value(field) < 0)
    return fail(WEFT_ERR_PROTOCOL, "the peer's message \"%s\" lacks the number \"%s\"",
                p2p_shown(p2p_text(message, "say"), shown, sizeof shown), name);
  *value = (uint64_t)json_integer_value(field);
  return 0;
}

const char *p2p_text(const json_t *message, const char *name) {
  const char *text = json_string_value(json_object_get(message, name));
  return text ? text : "";
}

int p2p_expect(const json_t *message, const char *what) {
  char shown[P2P_SHOWN];
  if (strcmp(p2p_text(message, "say"), what) == 0)
    return 0;
  return fail(WEFT_ERR_PROTOCOL, "the peer sent \"%s\" where \"%s\" was expected: is it another version?",
              p2p_shown(p2p_text(message, "say"), shown, sizeof shown), what);
}

const char *p2p_shown(const char *text, char *out, size_t size) {
  size_t at = 0;
  for (; text[at] && at < size - 1; at++)
    out[at] = (char)(text[at] < 0x20 || text[at] > 0x7E ? '?' : text[at]);
  out[at] = '\0';
  return out;
}
