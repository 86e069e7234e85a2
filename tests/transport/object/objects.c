// The objects of an impatient client, and their bytes.
#include <stdio.h>
#include <string.h>

#include "transport/object/client.h"

enum { BLOCK = 4096 };

// The server has the same in expected(): in each block the serial number, the block's number, the serial number again.
void client_pattern(uint64_t serial, uint64_t offset, uint64_t length, uint8_t *out) {
  uint64_t block[BLOCK / 8];
  for (size_t i = 0; i < BLOCK / 8; i++)
    block[i] = serial;
  while (length > 0) {
    uint64_t at = offset % BLOCK, run = BLOCK - at < length ? BLOCK - at : length;
    block[1] = offset / BLOCK;
    memcpy(out, (const uint8_t *)block + at, run);
    out += run;
    offset += run;
    length -= run;
  }
}

// Most are small; others are uploaded in two parts or three.
static uint64_t some_size(struct client *client) {
  uint32_t drawn = client_draw(client, 10);
  uint64_t most = drawn < 7 ? 100000 : drawn < 9 ? 1000 : CLIENT_MOST - (10u << 20);
  uint64_t least = drawn < 7 ? 16 : drawn < 9 ? (5u << 20) - 100 : 10u << 20;
  return least + client_draw(client, (uint32_t)most);
}

bool client_object_connect(struct client *client, struct client_object *object) {
  char key[TRANSPORT_MAX_KEY];
  size_t size = sizeof key;
  int rc = client->transport->pack(object->region, key, &size);
  rc = rc ? rc : client->transport->import(client->peer, key, size, &object->remote);
  return client_may(client, "import", rc, 0);
}

bool client_object_make(struct client *client, struct client_object *object) {
  memset(object, 0, sizeof *object);
  object->size = some_size(client);
  snprintf(object->path, sizeof object->path, "bucket/%s/%u-%llu", client->prefix, client->num_objects++,
           (unsigned long long)object->size);
  struct transport_memory memory = {.kind = WEFT_MEMORY_OBJECT, .fd = -1, .path = object->path};
  memory.length = client_draw(client, 2) ? object->size : 0;
  client_begin(client);
  return client_may(client, "reg", client->transport->reg(client->worker, &memory, &object->region), 0) &&
         client_object_connect(client, object);
}

void client_object_drop(struct client *client, struct client_object *object) {
  client->transport->release(object->remote);
  client->transport->unreg(object->region);
}
