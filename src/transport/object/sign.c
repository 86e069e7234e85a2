// Signs requests for S3: AWS Signature Version 4, with its signature in a header. Source: Amazon's page "Create a
// signed AWS API request" (docs.aws.amazon.com, IAM user guide). libcurl can sign too, but its releases differ in what
// they sign: before 7.88 they do not sign paths as S3 does, from 8.13 on they sign a '+' in a query as a blank, and
// none of them signs a path that is sent as it is (CURLOPT_PATH_AS_IS).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/text/text.h"
#include "secure/hmac.h"
#include "transport/object/object.h"

#define CONTENT "x-amz-content-sha256" // its value is signed in the body's place

enum { MAX_SIGNED = 8, HEX = 2 * HMAC_SIZE + 1, MAX_QUERY = 4 };

// A header of the request, as it is signed.
struct header {
  const char *name, *value;
  size_t name_size;
};

static void to_hex(const uint8_t bytes[HMAC_SIZE], char hex[HEX]) {
  for (int i = 0; i < HMAC_SIZE; i++)
    snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
}

static bool hash(const char *text, size_t size, char hex[HEX]) {
  const struct hmac_part part = {text, size};
  uint8_t digest[HMAC_SIZE];
  if (secure_sha256(&part, 1, digest) != 0)
    return false;
  to_hex(digest, hex);
  return true;
}

static bool mac(const void *key, size_t key_size, const char *text, uint8_t out[HMAC_SIZE]) {
  const struct hmac_part part = {text, strlen(text)};
  return hmac_sha256(key, key_size, &part, 1, out) == 0;
}

static int by_name(const void *left, const void *right) {
  return strcasecmp(((const struct header *)left)->name, ((const struct header *)right)->name);
}

// The headers "Name: value" of the list, by name. 0: more than there can be.
static size_t sort_headers(const struct curl_slist *list, struct header headers[MAX_SIGNED]) {
  size_t count = 0;
  for (; list; list = list->next) {
    const char *colon = strstr(list->data, ": ");
    if (!colon || count == MAX_SIGNED)
      return 0;
    headers[count++] = (struct header){list->data, colon + 2, (size_t)(colon - list->data)};
  }
  qsort(headers, count, sizeof *headers, by_name);
  return count;
}

static void add_name(struct text *text, const struct header *header) {
  for (size_t i = 0; i < header->name_size; i++) {
    char c = header->name[i];
    text_add(text, "%c", c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
}

static int by_text(const void *left, const void *right) {
  return strcmp(*(char *const *)left, *(char *const *)right);
}

// "name=value" pairs, sorted; they are percent-encoded already, and their names begin with different letters.
static bool add_query(struct text *text, const char *query) {
  char copy[sizeof(((struct object_lane *)0)->upload) + 64], *pairs[MAX_QUERY], *rest = NULL;
  size_t count = 0;
  if (strlen(query) >= sizeof copy)
    return false;
  strcpy(copy, query);
  for (char *pair = strtok_r(copy, "&", &rest); pair; pair = strtok_r(NULL, "&", &rest)) {
    if (count == MAX_QUERY)
      return false;
    pairs[count++] = pair;
  }
  qsort(pairs, count, sizeof *pairs, by_text);
  for (size_t i = 0; i < count; i++)
    text_add(text, "%s%s", i ? "&" : "", pairs[i]);
  return true;
}

// The signed part of the request; `names` gets the names of the signed headers.
static bool make_canonical(const struct object_lane *lane, const char *verb, const char *url, struct text *canonical,
                           struct text *names) {
  struct header headers[MAX_SIGNED];
  const char *path = strchr(strstr(url, "://") + 3, '/'), *query = strchr(path, '?'), *payload = NULL;
  size_t count = sort_headers(lane->headers, headers);
  text_add(canonical, "%s\n%.*s\n", verb, (int)(query ? query - path : (long)strlen(path)), path);
  if (count == 0 || !add_query(canonical, query ? query + 1 : ""))
    return false;
  text_add(canonical, "\n");
  for (size_t i = 0; i < count; i++) {
    add_name(canonical, &headers[i]);
    text_add(canonical, ":%s\n", headers[i].value);
    text_add(names, "%s", i ? ";" : "");
    add_name(names, &headers[i]);
    if (headers[i].name_size == strlen(CONTENT) && strncmp(headers[i].name, CONTENT, strlen(CONTENT)) == 0)
      payload = headers[i].value;
  }
  text_add(canonical, "\n%s\n%s", names->data, payload ? payload : "");
  return payload && !canonical->failed && !names->failed;
}

// The key of one day, region and service.
static bool make_key(const struct object_settings *set, const char *day, uint8_t key[HMAC_SIZE]) {
  char first[sizeof "AWS4" + OBJECT_MAX_SECRET];
  int size = snprintf(first, sizeof first, "AWS4%s", set->secret);
  bool made = mac(first, (size_t)size, day, key) && mac(key, HMAC_SIZE, set->region, key) &&
              mac(key, HMAC_SIZE, "s3", key) && mac(key, HMAC_SIZE, "aws4_request", key);
  explicit_bzero(first, sizeof first);
  return made;
}

static bool sign(const struct object_settings *set, const struct text *canonical, const char *date, const char *scope,
                 char signature[HEX]) {
  char hashed[HEX], day[9];
  uint8_t key[HMAC_SIZE], value[HMAC_SIZE];
  struct text what = {0};
  snprintf(day, sizeof day, "%.8s", date);
  bool made = hash(canonical->data, canonical->size, hashed) && make_key(set, day, key);
  if (made)
    text_add(&what, "AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hashed);
  made = made && what.data && !what.failed && mac(key, sizeof key, what.data, value);
  if (made)
    to_hex(value, signature);
  explicit_bzero(key, sizeof key);
  text_free(&what);
  return made;
}

// The host as it stands in the URL.
static bool add_host(struct object_lane *lane, const char *url) {
  char host[512];
  const char *begin = strstr(url, "://") + 3;
  snprintf(host, sizeof host, "%.*s", (int)strcspn(begin, "/"), begin);
  return object_add_header(lane, "Host", host);
}

bool object_sign(struct object_lane *lane, const char *verb, const char *url) {
  const struct object_settings *set = &lane->worker->set;
  char date[32], scope[128], signature[HEX];
  struct tm utc;
  time_t now = time(NULL);
  gmtime_r(&now, &utc);
  strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &utc);
  snprintf(scope, sizeof scope, "%.8s/%s/s3/aws4_request", date, set->region);
  struct text canonical = {0}, names = {0}, header = {0};
  bool made = add_host(lane, url) && object_add_header(lane, "x-amz-date", date) &&
              make_canonical(lane, verb, url, &canonical, &names) && sign(set, &canonical, date, scope, signature);
  if (made)
    text_add(&header, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", set->key, scope, names.data,
             signature);
  made = made && !header.failed && object_add_header(lane, "Authorization", header.data);
  text_free(&canonical);
  text_free(&names);
  text_free(&header);
  return made;
}
