// HTTP requests and streams for tests of the embedded server.
#include "store/support/server_http.h"

#include "base/text/text.h"
#include "base/time/clock.h"
#include "cmocka_all.h"
#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static size_t collect(char *data, size_t size, size_t count, void *arg) {
  text_add_bytes(arg, data, size * count);
  return size * count;
}

long http_request(const char *url, const char *path, const char *body, const char *token, char **answer) {
  CURL *curl = curl_easy_init();
  assert_non_null(curl);
  char address[256], header[256];
  snprintf(address, sizeof address, "%s%s", url, path);
  struct curl_slist *headers = NULL;
  if (token) {
    snprintf(header, sizeof header, "Authorization: %s", token);
    headers = curl_slist_append(headers, header);
  }
  struct text text = {0};
  curl_easy_setopt(curl, CURLOPT_URL, address);
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L); // these tests do not check the server's certificate
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)HTTP_DEADLINE_MS);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
  if (body)
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
  CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK)
    fail_msg("%s: %s", address, curl_easy_strerror(code));
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  char *data = text_take(&text);
  if (answer)
    *answer = data;
  else
    free(data);
  return status;
}

json_t *http_json(const char *url, const char *path, const char *body, long status) {
  char *answer;
  long got = http_request(url, path, body, NULL, &answer);
  if (got != status)
    fail_msg("%s %s: status %ld, not %ld: %s", path, body, got, status, answer);
  json_error_t error;
  json_t *json = json_loads(answer, 0, &error);
  if (!json)
    fail_msg("%s %s: %s in %s", path, body, error.text, answer);
  free(answer);
  return json;
}

void http_stream_connect(struct http_stream *stream, const char *url) {
  unsigned port = 0;
  assert_int_equal(sscanf(url, "http://127.0.0.1:%u", &port), 1);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  stream->size = 0;
  stream->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(stream->fd >= 0);
  assert_int_equal(connect(stream->fd, (struct sockaddr *)&address, sizeof address), 0);
}

void http_stream_post(struct http_stream *stream, const char *path, const char *body) {
  char head[256];
  int size =
      snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: test\r\nContent-Length: %zu\r\n\r\n", path, strlen(body));
  assert_int_equal(send(stream->fd, head, (size_t)size, MSG_NOSIGNAL), size);
  assert_int_equal(send(stream->fd, body, strlen(body), MSG_NOSIGNAL), strlen(body));
}

void http_stream_open(struct http_stream *stream, const char *url, const char *request_body) {
  http_stream_connect(stream, url);
  http_stream_post(stream, "/v3/watch", request_body);
}

// Receives some bytes; false at the end of the stream.
static bool receive(struct http_stream *stream, uint64_t deadline, const char *wanted) {
  struct pollfd ready = {.fd = stream->fd, .events = POLLIN};
  if (poll(&ready, 1, clock_left_ms(deadline)) != 1)
    fail_msg("'%s' did not come; so far: %.*s", wanted, (int)stream->size, stream->buffer);
  if (stream->size == sizeof stream->buffer - 1)
    stream->size = 0; // makes room: the awaited text is short, and comes again as a whole
  ssize_t got = recv(stream->fd, stream->buffer + stream->size, sizeof stream->buffer - 1 - stream->size, 0);
  stream->size += got > 0 ? (size_t)got : 0;
  stream->buffer[stream->size] = '\0';
  return got > 0;
}

void http_stream_expect(struct http_stream *stream, const char *text) {
  uint64_t deadline = clock_deadline_ms(HTTP_DEADLINE_MS);
  const char *found;
  stream->buffer[stream->size] = '\0';
  while (!(found = strstr(stream->buffer, text)))
    if (!receive(stream, deadline, text))
      fail_msg("the stream ended before '%s': %s", text, stream->buffer);
  size_t used = (size_t)(found - stream->buffer) + strlen(text);
  memmove(stream->buffer, stream->buffer + used, stream->size - used);
  stream->size -= used;
}

void http_stream_expect_end(struct http_stream *stream) {
  uint64_t deadline = clock_deadline_ms(HTTP_DEADLINE_MS);
  while (receive(stream, deadline, "the end of the stream"))
    stream->size = 0;
}

void http_stream_close(struct http_stream *stream) {
  close(stream->fd);
}
