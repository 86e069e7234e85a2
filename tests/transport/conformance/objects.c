// Objects of the S3 server that the environment names, accessed over libcurl's easy interface, independently of the
// transport.
#include "conformance/objects.h"

#include "cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/random.h"

enum { TIMEOUT_S = 60, TRIES = 5, SKIPPED = 77, SIGNS_HEADERS = 0x075801 }; // 7.88.1, the oldest that was seen to

// The bytes of one exchange.
struct body {
  unsigned char *bytes;
  size_t size, at;
};

static const char *environment(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

bool objects_can(void) {
  return environment("AWS_ENDPOINT_URL") && environment("AWS_REGION") && environment("AWS_ACCESS_KEY_ID") &&
         environment("AWS_SECRET_ACCESS_KEY");
}

void objects_name(char *path, size_t size) {
  static uint64_t run, count;
  if (run == 0)
    run = random_id() | 1;
  snprintf(path, size, "bucket/%llx/%llu", (unsigned long long)run, (unsigned long long)count++);
}

static size_t take(char *data, size_t unit, size_t count, void *arg) {
  struct body *body = arg;
  size_t size = unit * count;
  if (size > body->size - body->at)
    return 0;
  memcpy(body->bytes + body->at, data, size);
  body->at += size;
  return size;
}

static size_t give(char *data, size_t unit, size_t count, void *arg) {
  struct body *body = arg;
  size_t cap = unit * count, left = body->size - body->at, size = left < cap ? left : cap;
  memcpy(data, body->bytes + body->at, size);
  body->at += size;
  return size;
}

static int seek(void *arg, curl_off_t offset, int origin) {
  (void)origin;
  ((struct body *)arg)->at = (size_t)offset;
  return CURL_SEEKFUNC_OK;
}

// Of old releases (Ubuntu 22.04 has one) the signature leaves out headers that S3 wants in it.
static void require_signatures(void) {
  const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
  if (info->version_num >= SIGNS_HEADERS)
    return;
  fprintf(stderr, "skipped: libcurl %s does not sign the headers of this test's own requests; 7.88.1 does\n",
          info->version);
  exit(SKIPPED);
}

// A handle that keeps its connection for the life of the process.
static CURL *handle(const char *path) {
  static CURL *easy;
  char url[512], scheme[128];
  if (!easy)
    require_signatures();
  if (!easy)
    assert_non_null(easy = curl_easy_init());
  curl_easy_reset(easy);
  snprintf(url, sizeof url, "%s/%s", environment("AWS_ENDPOINT_URL"), path);
  snprintf(scheme, sizeof scheme, "aws:amz:%s:s3", environment("AWS_REGION"));
  curl_easy_setopt(easy, CURLOPT_URL, url);
  curl_easy_setopt(easy, CURLOPT_USERNAME, environment("AWS_ACCESS_KEY_ID"));
  curl_easy_setopt(easy, CURLOPT_PASSWORD, environment("AWS_SECRET_ACCESS_KEY"));
  curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, scheme);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
  return easy;
}

// Whether the server wants it to be tried again.
static bool is_put_off(CURLcode result, long status, int attempt) {
  return attempt < TRIES && (result != CURLE_OK || status >= 500);
}

static void perform(CURL *easy, struct body *body, const char *what, const char *path, long status,
                    const char *more_headers) {
  struct curl_slist *headers = curl_slist_append(NULL, "x-amz-content-sha256: UNSIGNED-PAYLOAD");
  if (more_headers)
    headers = curl_slist_append(headers, more_headers);
  long is = 0;
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  CURLcode result;
  int attempt = 0;
  do {
    if (body)
      body->at = 0;
    result = curl_easy_perform(easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &is);
  } while (is_put_off(result, is, ++attempt));
  curl_slist_free_all(headers);
  if (result != CURLE_OK || is != status)
    fail_msg("%s of %s: HTTP %ld, not %ld: %s", what, path, is, status, curl_easy_strerror(result));
}

void objects_put(const char *path, const void *bytes, size_t size) {
  CURL *easy = handle(path);
  struct body body = {.bytes = (unsigned char *)(uintptr_t)bytes, .size = size};
  curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, give);
  curl_easy_setopt(easy, CURLOPT_READDATA, &body);
  curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek);
  curl_easy_setopt(easy, CURLOPT_SEEKDATA, &body);
  perform(easy, &body, "PUT", path, 200, "Content-Type: application/octet-stream");
}

void objects_get(const char *path, uint64_t offset, void *bytes, size_t size) {
  CURL *easy = handle(path);
  struct body body = {.bytes = bytes, .size = size};
  char range[96];
  snprintf(range, sizeof range, "Range: bytes=%llu-%llu", (unsigned long long)offset,
           (unsigned long long)(offset + size - 1));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
  perform(easy, &body, "GET", path, 206, range);
  if (body.at != size)
    fail_msg("of %s %zu bytes came, not %zu", path, body.at, size);
}

uint64_t objects_size(const char *path) {
  CURL *easy = handle(path);
  curl_off_t size = -1;
  curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  perform(easy, NULL, "HEAD", path, 200, NULL);
  assert_int_equal(curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size), CURLE_OK);
  assert_true(size >= 0);
  return (uint64_t)size;
}
