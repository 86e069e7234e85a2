// An S3 server's answer: header lines up to an empty one, then a body, which comes in two pieces.
#include "transport/object/answer.h"

#include <string.h>

#include "fuzz/support/fuzz.h"

// Takes the header; returns where the body begins.
static size_t take_header(struct object_answer *answer, const char *bytes, size_t size) {
  size_t at = 0;
  while (at < size) {
    const char *end = memchr(bytes + at, '\n', size - at);
    size_t line = end ? (size_t)(end - (bytes + at)) + 1 : size - at;
    object_answer_header(answer, bytes + at, line);
    at += line;
    if (line <= 2)
      break;
  }
  return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct object_answer answer;
  static const char *const names[] = {"Code", "Message", "UploadId"};
  char element[128], why[256];
  bool again;
  answer = (struct object_answer){0};
  size_t at = take_header(&answer, (const char *)data, size), half = (size - at) / 2;
  object_answer_text(&answer, (const char *)data + at, half);
  object_answer_text(&answer, (const char *)data + at + half, size - at - half);
  FUZZ_CHECK(answer.status >= 0 && answer.status < 1000);
  FUZZ_CHECK(memchr(answer.etag, '\0', sizeof answer.etag) && strlen(answer.text) == answer.text_size);
  FUZZ_CHECK(!answer.has_range || answer.range_first <= answer.range_last);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!object_answer_element(&answer, names[i], element, sizeof element))
      continue;
    for (const char *c = element; *c; c++) // it goes into headers
      FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 127);
  }
  int err = object_answer_judge(&answer, &again, why, sizeof why);
  FUZZ_CHECK(err <= 0 && (err < 0 || (answer.status >= 200 && answer.status < 300)));
  FUZZ_CHECK(err == 0 || memchr(why, '\0', sizeof why));
  return 0;
}
