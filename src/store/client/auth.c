// The client's credentials: a bearer token, or a token that etcd issues for user and password.
#include "store/client/client.h"

#include "base/fail.h"
#include "secure/secret.h"
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

// Overwrites jansson's copy of the password.
static void wipe_password(json_t *object) {
  char *copy = (char *)(uintptr_t)json_string_value(json_object_get(object, "password"));
  explicit_bzero(copy, strlen(copy));
}

// Leaves no copy of the password in freed memory: json_dumpb() writes to the given place only, and `body`, which is
// empty, takes all of it at once. The caller wipes `body`.
int client_auth_request(const struct client *client, struct text *body) {
  json_t *object = json_pack("{s:s, s:s}", "name", client->user, "password", client->password);
  if (!object)
    return fail(WEFT_ERR_INVALID, "store user or password is not UTF-8");
  size_t size = json_dumpb(object, NULL, 0, JSON_COMPACT);
  char *text = calloc(1, size + 1);
  if (text && json_dumpb(object, text, size, JSON_COMPACT) == size)
    text_add_bytes(body, text, size);
  else
    body->failed = true;
  secret_free(text);
  wipe_password(object);
  json_decref(object);
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
