// The server and the credentials: first from settings of the worker, then from the environment variables that all S3
// clients know. Of their values, only endpoint, region and file names are ever written to a log or an error text.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/settings.h"
#include "base/text/text.h"
#include "transport/object/object.h"

// NOMEM alone; `*out` stays NULL where nothing is set.
static int read_text(const struct transport_options *options, const char *name, const char *const *variables,
                     char **out) {
  const char *value = settings_value(options->settings, name);
  for (; !value && *variables; variables++) {
    value = secure_getenv(*variables);
    value = value && *value ? value : NULL;
  }
  if (!value || !*value)
    return 0;
  *out = strdup(value);
  return *out ? 0 : fail(WEFT_ERR_NOMEM, "out of memory for the setting %s", name);
}

static int read_numbers(struct object_settings *set, const struct transport_options *options) {
  static const char *const others[] = {"endpoint",      "region",  "access_key_id", "secret_access_key",
                                       "session_token", "ca_file", "style",         NULL};
  static const uint64_t mib = 1 << 20;
  uint64_t part_mib = 8;
  const struct settings_number numbers[] = {
      {"part_mib", 5, 5120, &part_mib},
      {"parallel", 1, OBJECT_MAX_PARALLEL, &set->parallel},
      {"retries", 0, 100, &set->retries},
      {"backoff_ms", 0, 60000, &set->backoff_ms},
      {"connect_ms", 1, 600000, &set->connect_ms},
      {"stall_s", 1, 3600, &set->stall_s},
      {"timeout_s", 1, 86400, &set->timeout_s},
      {.name = NULL},
  };
  *set = (struct object_settings){
      .parallel = 16, .retries = 5, .backoff_ms = 50, .connect_ms = 5000, .stall_s = 10, .timeout_s = 120};
  int rc = settings_read(options->settings, "object", numbers, others);
  set->part_bytes = part_mib * mib;
  return rc;
}

static int read_texts(struct object_settings *set, const struct transport_options *options) {
  const struct {
    const char *name;
    const char *variables[3];
    char **out;
  } texts[] = {
      {"endpoint", {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, &set->endpoint},
      {"region", {"AWS_REGION", "AWS_DEFAULT_REGION"}, &set->region},
      {"access_key_id", {"AWS_ACCESS_KEY_ID"}, &set->key},
      {"secret_access_key", {"AWS_SECRET_ACCESS_KEY"}, &set->secret},
      {"session_token", {"AWS_SESSION_TOKEN"}, &set->token},
      {"ca_file", {"AWS_CA_BUNDLE"}, &set->ca_file},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    int rc = read_text(options, texts[i].name, texts[i].variables, texts[i].out);
    if (rc < 0)
      return rc;
  }
  if (!set->region && !(set->region = strdup("us-east-1")))
    return fail(WEFT_ERR_NOMEM, "out of memory for the region");
  return 0;
}

// The text itself is not shown: it may be a secret, or have one in it.
static int check_length(const char *what, const char *text, size_t most) {
  size_t size = text ? strlen(text) : 0;
  return size <= most ? 0 : fail(WEFT_ERR_INVALID, "the %s has %zu bytes: want at most %zu", what, size, most);
}

static int check_lengths(const struct object_settings *set) {
  int rc = check_length("endpoint", set->endpoint, OBJECT_MAX_ENDPOINT);
  if (rc == 0)
    rc = check_length("region", set->region, OBJECT_MAX_REGION);
  return rc ? rc : check_length("secret access key", set->secret, OBJECT_MAX_SECRET);
}

static int check(struct object_settings *set, const char *style) {
  if (set->endpoint) {
    char *end = set->endpoint + strlen(set->endpoint);
    while (end > set->endpoint && end[-1] == '/')
      *--end = '\0';
    const char *host = strstr(set->endpoint, "://");
    if (!host || (strncmp(set->endpoint, "http://", 7) != 0 && strncmp(set->endpoint, "https://", 8) != 0) ||
        strpbrk(host + 3, "/?#@ ") || !host[3])
      return fail(WEFT_ERR_INVALID, "the endpoint has to be http://HOST[:PORT] or https://HOST[:PORT]");
  }
  if (!set->key != !set->secret)
    return fail(WEFT_ERR_AUTH, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are needed together: one is missing");
  for (const char *c = set->region; *c; c++) {
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-' || *c == '_'))
      return fail(WEFT_ERR_INVALID, "the region %s: want letters, digits and dashes", set->region);
  }
  if (style && strcmp(style, "path") != 0 && strcmp(style, "virtual") != 0)
    return fail(WEFT_ERR_INVALID, "style=%s: want path or virtual", style);
  set->virtual_host = style ? strcmp(style, "virtual") == 0 : !set->endpoint;
  return 0;
}

int object_settings_read(struct object_settings *set, const struct transport_options *options) {
  int rc = read_numbers(set, options);
  if (rc == 0)
    rc = read_texts(set, options);
  if (rc == 0)
    rc = check_lengths(set);
  if (rc == 0)
    rc = check(set, settings_value(options->settings, "style"));
  if (rc < 0)
    object_settings_free(set);
  return rc;
}

static void forget(char *secret) {
  if (secret)
    explicit_bzero(secret, strlen(secret));
  free(secret);
}

void object_settings_free(struct object_settings *set) {
  free(set->endpoint);
  free(set->region);
  forget(set->key);
  forget(set->secret);
  forget(set->token);
  free(set->ca_file);
  *set = (struct object_settings){0};
}

bool object_encode(const char *text, const char *keep, char *out, size_t cap) {
  static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  static const char digits[] = "0123456789ABCDEF";
  size_t size = 0;
  for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
    bool as_is = strchr(plain, *c) || strchr(keep, *c);
    if (size + (as_is ? 1u : 3u) >= cap)
      return false;
    if (as_is) {
      out[size++] = (char)*c;
      continue;
    }
    out[size++] = '%';
    out[size++] = digits[*c >> 4];
    out[size++] = digits[*c & 15];
  }
  out[size] = '\0';
  return true;
}

// Amazon's server of a region. These regions are partitions of their own, each with a domain.
static void name_server(const char *region, char host[OBJECT_MAX_ENDPOINT + 1]) {
  const char *domain = strncmp(region, "cn-", 3) == 0     ? "amazonaws.com.cn"
                       : strncmp(region, "eusc-", 5) == 0 ? "amazonaws.eu"
                                                          : "amazonaws.com";
  snprintf(host, OBJECT_MAX_ENDPOINT + 1, "https://s3.%s.%s", region, domain);
}

// Whether the bucket can be a part of the host name. With a dot in it, no certificate of the server would fit.
static bool is_label(const char *bucket) {
  return strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(bucket);
}

int object_url(const struct object_settings *set, const char *path, char **url) {
  const char *slash = path ? strchr(path, '/') : NULL;
  char bucket[64 * 3 + 1], key[1024 * 3 + 1], host[OBJECT_MAX_ENDPOINT + 1];
  if (!slash || slash == path || !slash[1] || slash - path > 63)
    return fail(WEFT_ERR_INVALID, "an object's path is BUCKET/KEY, not \"%s\"", path ? path : "");
  char name[64];
  memcpy(name, path, (size_t)(slash - path));
  name[slash - path] = '\0';
  if (!object_encode(name, "", bucket, sizeof bucket) || strlen(slash + 1) > 1024 ||
      !object_encode(slash + 1, "/", key, sizeof key))
    return fail(WEFT_ERR_INVALID, "the key of %s is longer than 1,024 bytes", path);
  if (set->endpoint)
    snprintf(host, sizeof host, "%s", set->endpoint);
  else
    name_server(set->region, host);
  struct text text = {0};
  const char *rest = strstr(host, "://") + 3;
  if (set->virtual_host && is_label(name))
    text_add(&text, "%.*s%s.%s/%s", (int)(rest - host), host, bucket, rest, key);
  else
    text_add(&text, "%s/%s/%s", host, bucket, key);
  *url = text_take(&text);
  return *url ? 0 : fail(WEFT_ERR_NOMEM, "out of memory for the URL of %s", path);
}
