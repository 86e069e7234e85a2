// Parses the answers of an S3 server: header lines and error documents. No I/O: it only reads data from outside.
#ifndef TRANSPORT_OBJECT_ANSWER_H
#define TRANSPORT_OBJECT_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Longer than the entity tags of all known servers; a truncated tag would be useless.
enum { OBJECT_ETAG = 1024 };

struct object_answer {
  int status; // of HTTP; 0: none yet
  bool has_range;
  uint64_t range_first, range_last, range_total; // of Content-Range; the total is UINT64_MAX where it is not given
  bool has_length;
  uint64_t length;        // Content-Length
  char etag[OBJECT_ETAG]; // quotes included; "": none was given, or it does not fit
  char text[4096];        // of the body, when it is not the object; ends with a NUL
  size_t text_size;
};

// Parses one line of the header. A status line starts a new answer (100 Continue precedes another one).
void object_answer_header(struct object_answer *answer, const char *line, size_t size);
// Keeps the beginning of a body.
void object_answer_text(struct object_answer *answer, const char *bytes, size_t size);

// Writes the text of the first element of that name, with the five named entities resolved. False: there is none, or it
// does not fit.
bool object_answer_element(const struct object_answer *answer, const char *name, char *out, size_t cap);

// The code for a status, and whether to try again; 0: success. Writes the error text, without naming the request.
int object_answer_judge(const struct object_answer *answer, bool *again, char *why, size_t cap);

#endif
