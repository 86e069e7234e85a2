#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/crc32c.h"
#include "base/fail.h"
#include "base/random.h"
#include "base/wire.h"
#include "transport/flow/flow.h"

int flow_card_write(const char *what, uint32_t magic, const void *body, size_t body_size, void *bytes, size_t *size) {
  struct wire_writer writer = {.bytes = bytes, .capacity = *size};
  if (body_size + 12 > *size)
    return fail(WEFT_ERR_LIMIT, "%s takes %zu bytes, and there is room for %zu", what, body_size + 12, *size);
  wire_put_number(&writer, magic, 4);
  wire_put_number(&writer, body_size, 4);
  wire_put(&writer, body, body_size);
  wire_put_number(&writer, crc32c(0, bytes, writer.at), 4);
  *size = writer.at;
  return 0;
}

int flow_card_read(const char *what, uint32_t magic, const void *bytes, size_t size, const void **body,
                   size_t *body_size) {
  struct wire_reader reader = {.bytes = bytes, .size = size};
  if (wire_take_number(&reader, 4) != magic)
    return fail(WEFT_ERR_PROTOCOL, "these %zu bytes are no %s", size, what);
  size_t length = wire_take_number(&reader, 4);
  const void *inside = wire_take(&reader, length);
  uint64_t sum = wire_take_number(&reader, 4);
  if (reader.failed || wire_left(&reader) > 0 || sum != crc32c(0, bytes, size - 4))
    return fail(WEFT_ERR_PROTOCOL, "%s is damaged: %zu bytes whose checksum does not fit", what, size);
  *body = inside;
  *body_size = length;
  return 0;
}

const char *flow_setting(const char *const *settings, const char *name) {
  size_t length = strlen(name);
  const char *value = NULL;
  for (; settings && *settings; settings++) {
    if (strncmp(*settings, name, length) == 0 && (*settings)[length] == '=')
      value = *settings + length + 1;
  }
  return value;
}

void flow_host(uint64_t *host, uint64_t *net) {
  char boot[64] = "";
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (!file || !fgets(boot, sizeof boot, file))
    boot[0] = '\0';
  if (file)
    fclose(file);
  uint64_t hash = 1;
  for (const char *c = boot; *c; c++)
    hash = random_mix(hash ^ (unsigned char)*c);
  struct stat status = {0};
  *host = hash;
  *net = stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}
