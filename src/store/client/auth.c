// The client's credentials: a bearer token, or a token that etcd issues for user and password.
#include "store/client/client.h"

#include "base/fail.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// The token of an embedded server is sent only over TLS, to the server that has proved itself: over plain HTTP any
// process that listens there would learn it, on this host that of any user.
bool client_auth_header(struct client *client, const char *endpoint, char out[CLIENT_MAX_TOKEN + 8]) {
  out[0] = '\0';
  if (client->bearer && strncasecmp(endpoint, "https:", strlen("https:")) == 0)
    snprintf(out, CLIENT_MAX_TOKEN + 8, "Bearer %s", client->bearer);
  if (!client->user)
    return true;
  pthread_mutex_lock(&client->lock);
  memcpy(out, client->token, sizeof client->token);
  pthread_mutex_unlock(&client->lock);
  return out[0] != '\0';
}

int client_auth_request(const struct client *client, struct text *body) {
  json_t *object = json_pack("{s:s, s:s}", "name", client->user, "password", client->password);
  char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
  json_decref(object);
  if (!text)
    return fail(WEFT_ERR_INVALID, "store user or password is not UTF-8");
  text_add(body, "%s", text);
  free(text);
  return body->failed ? fail(WEFT_ERR_NOMEM, "no memory for a request to the store") : 0;
}

int client_auth_answer(struct client *client, const json_t *answer) {
  const char *token = json_string_value(json_object_get(answer, "token"));
  size_t size = token ? strlen(token) : 0;
  for (size_t i = 0; i < size; i++)
    if (!isgraph((unsigned char)token[i]))
      size = 0;
  if (size == 0 || size >= CLIENT_MAX_TOKEN)
    return fail(WEFT_ERR_PROTOCOL, "malformed answer: no usable \"token\" for user \"%s\"", client->user);
  pthread_mutex_lock(&client->lock);
  memcpy(client->token, token, size + 1);
  pthread_mutex_unlock(&client->lock);
  return 0;
}

void client_auth_forget(struct client *client) {
  pthread_mutex_lock(&client->lock);
  client->token[0] = '\0';
  pthread_mutex_unlock(&client->lock);
}
