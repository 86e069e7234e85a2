// HTTP for tests of the embedded server: libcurl for requests, a bare socket for what libcurl would not do.
#ifndef TESTS_STORE_SERVER_HTTP_H
#define TESTS_STORE_SERVER_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_DEADLINE_MS = 60000 };

// Posts `body` (NULL: a GET) and returns the status. `*answer` gets the answer, which the caller frees, unless NULL.
// `token` NULL: none.
long http_request(const char *url, const char *path, const char *body, const char *token, char **answer);

// The same for an answer that has to be JSON, and have this `status`.
json_t *http_json(const char *url, const char *path, const char *body, long status);

// A connection whose answers are read as they arrive.
struct http_stream {
  int fd;
  char buffer[1 << 16];
  size_t size;
};

void http_stream_connect(struct http_stream *stream, const char *url);

// Posts on the open connection; the answer is not read.
void http_stream_post(struct http_stream *stream, const char *path, const char *body);

// Connects and posts to /v3/watch.
void http_stream_open(struct http_stream *stream, const char *url, const char *request_body);

// Reads until `text` was received since the last call; fails at the deadline. Drops everything up to the end of `text`.
void http_stream_expect(struct http_stream *stream, const char *text);

// Reads until the server closes; fails at the deadline.
void http_stream_expect_end(struct http_stream *stream);
void http_stream_close(struct http_stream *stream);

#endif
