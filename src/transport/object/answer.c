// Parses the answers of an S3 store: errors as XML, and headers.
#include "transport/object/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <weft/err.h>

// Reads digits; false: there are none, or too many.
static bool read_number(const char **at, const char *end, uint64_t *value) {
  const char *start = *at;
  uint64_t number = 0;
  for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
    uint64_t digit = (uint64_t)(**at - '0');
    if (number > (UINT64_MAX - digit) / 10)
      return false;
    number = number * 10 + digit;
  }
  *value = number;
  return *at > start;
}

// The value of a header line of that name, without blanks around it; NULL: the line has another name.
static const char *value_of(const char *line, size_t size, const char *name, const char **end) {
  size_t length = strlen(name);
  if (size <= length || strncasecmp(line, name, length) != 0 || line[length] != ':')
    return NULL;
  const char *from = line + length + 1, *to = line + size;
  while (from < to && (*from == ' ' || *from == '\t'))
    from++;
  while (to > from && (to[-1] == '\n' || to[-1] == '\r' || to[-1] == ' ' || to[-1] == '\t'))
    to--;
  *end = to;
  return from;
}

static void take_status(struct object_answer *answer, const char *line, size_t size) {
  *answer = (struct object_answer){0};
  const char *at = memchr(line, ' ', size), *end = line + size;
  uint64_t status = 0;
  if (at && ++at < end && read_number(&at, end, &status) && status < 1000)
    answer->status = (int)status;
}

// "bytes FIRST-LAST/TOTAL", "bytes FIRST-LAST/*"
static void take_range(struct object_answer *answer, const char *at, const char *end) {
  uint64_t first, last, total = UINT64_MAX;
  if (end - at < 6 || strncasecmp(at, "bytes ", 6) != 0)
    return;
  at += 6;
  if (!read_number(&at, end, &first) || at == end || *at++ != '-' || !read_number(&at, end, &last) || at == end ||
      *at++ != '/' || last < first)
    return;
  if (at < end && *at != '*' && !read_number(&at, end, &total))
    return;
  answer->has_range = true;
  answer->range_first = first;
  answer->range_last = last;
  answer->range_total = total;
}

void object_answer_header(struct object_answer *answer, const char *line, size_t size) {
  const char *end, *value;
  if (size >= 5 && strncasecmp(line, "HTTP/", 5) == 0)
    take_status(answer, line, size);
  else if ((value = value_of(line, size, "Content-Range", &end)))
    take_range(answer, value, end);
  else if ((value = value_of(line, size, "Content-Length", &end)))
    answer->has_length = read_number(&value, end, &answer->length);
  else if ((value = value_of(line, size, "ETag", &end)) && (size_t)(end - value) < sizeof answer->etag)
    snprintf(answer->etag, sizeof answer->etag, "%.*s", (int)(end - value), value);
}

void object_answer_text(struct object_answer *answer, const char *bytes, size_t size) {
  size_t room = sizeof answer->text - 1 - answer->text_size;
  size_t taken = size < room ? size : room;
  for (size_t i = 0; i < taken; i++) // one text: nothing ends it early
    answer->text[answer->text_size++] = bytes[i] ? bytes[i] : ' ';
  answer->text[answer->text_size] = '\0';
}

static char entity(const char **at) {
  static const struct {
    const char *name;
    char value;
  } known[] = {{"&quot;", '"'}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&apos;", '\''}, {"&#34;", '"'}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t length = strlen(known[i].name);
    if (strncmp(*at, known[i].name, length) == 0) {
      *at += length;
      return known[i].value;
    }
  }
  return *(*at)++;
}

bool object_answer_element(const struct object_answer *answer, const char *name, char *out, size_t cap) {
  char open[64], close[64];
  snprintf(open, sizeof open, "<%s>", name);
  snprintf(close, sizeof close, "</%s>", name);
  const char *from = strstr(answer->text, open);
  const char *to = from ? strstr(from, close) : NULL;
  if (!to)
    return false;
  size_t size = 0;
  for (from += strlen(open); from < to; size++) {
    if (size + 1 >= cap)
      return false;
    char c = entity(&from);
    out[size] = (unsigned char)c < ' ' || c == 127 ? ' ' : c; // it is used in texts for people, and in headers
  }
  out[size] = '\0';
  return true;
}

static int code_of(int status, const char *name) {
  if (strcmp(name, "ExpiredToken") == 0 || strcmp(name, "InvalidToken") == 0)
    return WEFT_ERR_AUTH;
  switch (status) {
  case 401:
  case 403:
    return WEFT_ERR_AUTH;
  case 404:
    return WEFT_ERR_NOT_FOUND;
  case 409:
  case 412:
    return WEFT_ERR_CONFLICT;
  case 413:
  case 416:
  case 507:
    return WEFT_ERR_LIMIT;
  case 400:
  case 405:
  case 411:
    return WEFT_ERR_INVALID;
  case 501:
    return WEFT_ERR_UNSUPPORTED;
  default:
    return status >= 300 ? WEFT_ERR_UNREACHABLE : WEFT_ERR_PROTOCOL;
  }
}

int object_answer_judge(const struct object_answer *answer, bool *again, char *why, size_t cap) {
  char name[64] = "", message[128] = "";
  bool is_error = strstr(answer->text, "<Error>") != NULL || strstr(answer->text, "<Error ") != NULL;
  *again = false;
  if (answer->status >= 200 && answer->status < 300 && !is_error)
    return 0;
  object_answer_element(answer, "Code", name, sizeof name);
  object_answer_element(answer, "Message", message, sizeof message);
  snprintf(why, cap, "HTTP %d%s%s%s%s", answer->status, *name ? " " : "", name, *message ? ": " : "", message);
  int status = answer->status;
  *again = status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504 ||
           strcmp(name, "RequestTimeout") == 0 || strcmp(name, "SlowDown") == 0 || strcmp(name, "InternalError") == 0;
  // The server answers a completion with 200 before it has finished, and reports a failure in the body.
  return status < 300 && *again ? WEFT_ERR_UNREACHABLE : code_of(status, name);
}
