// One exchange with the server: the request, the source or destination of the bytes, and the checks of the answer as it
// arrives. The object's bytes are moved directly between the connection and the pieces.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fail.h"
#include "base/http_only.h"
#include "base/text/text.h"
#include "transport/object/object.h"

#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// --- bytes ---

static const struct transport_piece *piece_of(const struct object_lane *lane) {
  return &lane->own->base.request->pieces[lane->own->order[lane->entry]];
}

// Back to byte `moved` of the part.
static void seek_part(struct object_lane *lane, uint64_t moved) {
  lane->moved = moved;
  lane->entry = lane->part->first;
  uint64_t offset = lane->part->offset + moved;
  const struct transport_piece *piece = piece_of(lane);
  while (moved < lane->part->length && piece->remote_address + piece->length <= offset) {
    lane->entry++;
    piece = piece_of(lane);
  }
  lane->in_piece = offset - piece->remote_address;
}

// The next contiguous bytes of the part; `*size` is the number wanted on entry. The part's position advances behind
// them.
static char *next_bytes(struct object_lane *lane, uint64_t *size) {
  const struct transport_piece *piece = piece_of(lane);
  uint64_t left = lane->part->length - lane->moved, run = piece->length - lane->in_piece;
  *size = *size < left ? *size : left;
  *size = *size < run ? *size : run;
  char *at = (char *)(uintptr_t)(piece->local_address + lane->in_piece);
  lane->moved += *size;
  lane->in_piece += *size;
  if (lane->in_piece == piece->length && lane->moved < lane->part->length) {
    lane->entry++;
    lane->in_piece = 0;
  }
  return at;
}

static size_t refuse(struct object_lane *lane, int err, const char *why) {
  lane->refused = err;
  snprintf(lane->why, sizeof lane->why, "%s", why);
  return 0;
}

// Whether the header belongs to the requested range; checked before any byte of the body is used.
static bool range_fits(struct object_lane *lane) {
  const struct object_answer *answer = &lane->answer;
  const struct object_part *part = lane->part;
  char why[160];
  uint64_t want_last = part->offset + part->length - 1;
  if (answer->status == 200 && part->offset == 0 && (!answer->has_length || answer->length == part->length))
    return true; // the whole object, as requested
  if (answer->status != 206 || !answer->has_range) {
    snprintf(why, sizeof why, "the server ignores the requested range (HTTP %d)", answer->status);
    return refuse(lane, WEFT_ERR_PROTOCOL, why);
  }
  if (answer->range_first == part->offset && answer->range_last == want_last)
    return true;
  if (answer->range_first == part->offset && answer->range_last < want_last &&
      answer->range_total == answer->range_last + 1) {
    snprintf(why, sizeof why, "it ends at byte %llu, but bytes up to %llu were requested",
             (unsigned long long)answer->range_total, (unsigned long long)want_last + 1);
    return refuse(lane, WEFT_ERR_LIMIT, why);
  }
  snprintf(why, sizeof why, "the server sent bytes %llu-%llu, but %llu-%llu were requested",
           (unsigned long long)answer->range_first, (unsigned long long)answer->range_last,
           (unsigned long long)part->offset, (unsigned long long)want_last);
  return refuse(lane, WEFT_ERR_PROTOCOL, why);
}

// The first of several parts determines the version that all of them have to have. A weak ETag does not identify a
// version: different bytes may have the same one, If-Match never matches it, and parts that share it must not be
// combined (RFC 9110, 8.8.1, 13.1.1 and 15.3.7.3).
static bool version_fits(struct object_lane *lane) {
  struct object_target *target = lane->target;
  bool weak = strncmp(lane->answer.etag, "W/", 2) == 0;
  if (target->opening && (weak || !lane->answer.etag[0])) {
    char why[160];
    snprintf(why, sizeof why,
             "the server gives no %sETag of at most %d bytes, so %u parts of it could be of different versions",
             weak ? "strong " : "", OBJECT_ETAG - 1, target->num_parts);
    return refuse(lane, WEFT_ERR_UNSUPPORTED, why);
  }
  if (!target->etag[0] || strcmp(target->etag, lane->answer.etag) == 0)
    return true;
  return refuse(lane, WEFT_ERR_CONFLICT, "it was changed while it was read");
}

static size_t take_object(struct object_lane *lane, const char *data, size_t size) {
  if (lane->moved == 0 && (!range_fits(lane) || !version_fits(lane)))
    return 0;
  if (size > lane->part->length - lane->moved)
    return refuse(lane, WEFT_ERR_PROTOCOL, "the server sent more bytes than were requested");
  for (size_t done = 0; done < size;) {
    uint64_t run = size - done;
    char *to = next_bytes(lane, &run);
    memcpy(to, data + done, run);
    done += run;
  }
  return size;
}

// Nothing of an announced body has arrived, or too little. Or the server has answered before it had all of an upload,
// and closed the connection, after which curl sends no more and reports no error.
void object_exchange_check_short(struct object_lane *lane) {
  char why[160];
  bool reads = lane->verb == OBJECT_GET;
  if (reads && lane->moved == 0 && !range_fits(lane))
    return;
  snprintf(why, sizeof why,
           reads ? "the server sent %llu bytes, but %llu were requested"
                 : "the server answered after %llu bytes, but %llu were to be written",
           (unsigned long long)lane->moved, (unsigned long long)lane->part->length);
  refuse(lane, WEFT_ERR_PROTOCOL, why);
}

static size_t on_body(char *data, size_t unit, size_t count, void *arg) {
  struct object_lane *lane = arg;
  size_t size = unit * count;
  if (lane->verb == OBJECT_GET && (lane->answer.status == 200 || lane->answer.status == 206))
    return size > 0 ? take_object(lane, data, size) : 0;
  object_answer_text(&lane->answer, data, size);
  return size;
}

static size_t on_header(char *line, size_t unit, size_t count, void *arg) {
  struct object_lane *lane = arg;
  object_answer_header(&lane->answer, line, unit * count);
  return unit * count;
}

static size_t on_upload(char *data, size_t unit, size_t count, void *arg) {
  struct object_lane *lane = arg;
  size_t cap = unit * count, done = 0;
  while (done < cap && lane->moved < lane->part->length) {
    uint64_t run = cap - done;
    const char *from = next_bytes(lane, &run);
    memcpy(data + done, from, run);
    done += run;
  }
  return done;
}

// curl sends a body again when a kept connection turns out to be dead.
static int on_seek(void *arg, curl_off_t offset, int origin) {
  struct object_lane *lane = arg;
  if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > lane->part->length)
    return CURL_SEEKFUNC_CANTSEEK;
  seek_part(lane, (uint64_t)offset);
  return CURL_SEEKFUNC_OK;
}

// --- requests ---

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address) {
  (void)arg, (void)purpose;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool object_add_header(struct object_lane *lane, const char *name, const char *value) {
  size_t size = strlen(name) + strlen(value) + sizeof ": ";
  char *line = malloc(size); // a session's token may have any length
  if (!line)
    return false;
  snprintf(line, size, "%s: %s", name, value);
  struct curl_slist *grown = curl_slist_append(lane->headers, line);
  explicit_bzero(line, size);
  free(line);
  lane->headers = grown ? grown : lane->headers;
  return grown != NULL;
}

static bool add_headers(struct object_lane *lane) {
  const struct object_settings *set = &lane->worker->set;
  char range[64];
  bool reads = lane->verb == OBJECT_GET || lane->verb == OBJECT_HEAD;
  bool has_body = !reads && lane->verb != OBJECT_ABORT;
  bool good = !has_body || object_add_header(lane, "Content-Type", "application/octet-stream");
  if (set->key && set->token)
    good = good && object_add_header(lane, "x-amz-security-token", set->token);
  bool empty = reads || lane->verb == OBJECT_CREATE || lane->verb == OBJECT_ABORT;
  good = good && object_add_header(lane, "x-amz-content-sha256", empty ? SHA256_OF_NOTHING : "UNSIGNED-PAYLOAD");
  if (lane->verb == OBJECT_GET) {
    snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)lane->part->offset,
             (unsigned long long)(lane->part->offset + lane->part->length - 1));
    good = good && object_add_header(lane, "Range", range);
    if (lane->target->etag[0])
      good = good && object_add_header(lane, "If-Match", lane->target->etag);
  }
  return good;
}

// The list of parts that ends an upload.
static char *completion(const struct object_lane *lane) {
  struct text text = {0};
  text_add(&text, "<CompleteMultipartUpload>");
  for (uint32_t i = 0; i < lane->target->num_parts; i++)
    text_add(&text, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1,
             lane->own->parts[lane->target->first_part + i].etag);
  text_add(&text, "</CompleteMultipartUpload>");
  return text_take(&text);
}

static bool set_url(struct object_lane *lane) {
  static const char *const verbs[] = {
      [OBJECT_GET] = "GET",       [OBJECT_PUT] = "PUT",      [OBJECT_CREATE] = "POST", [OBJECT_PUT_PART] = "PUT",
      [OBJECT_COMPLETE] = "POST", [OBJECT_ABORT] = "DELETE", [OBJECT_HEAD] = "HEAD",
  };
  struct text url = {0};
  switch (lane->verb) {
  case OBJECT_GET:
  case OBJECT_PUT:
  case OBJECT_HEAD:
    text_add(&url, "%s", lane->object_url);
    break;
  case OBJECT_CREATE:
    text_add(&url, "%s?uploads=", lane->object_url);
    break;
  case OBJECT_PUT_PART:
    text_add(&url, "%s?partNumber=%u&uploadId=%s", lane->object_url,
             (unsigned)(lane->part - &lane->own->parts[lane->target->first_part]) + 1, lane->upload);
    break;
  case OBJECT_COMPLETE:
  case OBJECT_ABORT:
    text_add(&url, "%s?uploadId=%s", lane->object_url, lane->upload);
    break;
  }
  bool good = url.data && !url.failed && curl_easy_setopt(lane->easy, CURLOPT_URL, url.data) == CURLE_OK &&
              (!lane->worker->set.key || object_sign(lane, verbs[lane->verb], url.data));
  text_free(&url);
  return good;
}

static bool set_verb(struct object_lane *lane) {
  CURL *easy = lane->easy;
  switch (lane->verb) {
  case OBJECT_GET:
    return true;
  case OBJECT_HEAD:
    return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
  case OBJECT_PUT:
  case OBJECT_PUT_PART:
    curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)lane->part->length);
    return true;
  case OBJECT_ABORT:
    return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE") == CURLE_OK;
  case OBJECT_COMPLETE:
    free(lane->body);
    lane->body = completion(lane);
    if (!lane->body)
      return false;
    break;
  case OBJECT_CREATE:
    break;
  }
  const char *body = lane->verb == OBJECT_COMPLETE ? lane->body : "";
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
  return curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body) == CURLE_OK;
}

static void set_common(struct object_lane *lane) {
  const struct object_settings *set = &lane->worker->set;
  CURL *easy = lane->easy;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); // connections of their own, side by side
  http_only(easy);
  curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L << 10);
  curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)set->connect_ms);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)set->stall_s);
  if (lane->verb == OBJECT_CREATE || lane->verb == OBJECT_ABORT) // there may be no request any more whose end is theirs
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)set->timeout_s * 1000);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, lane);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, lane);
  curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_upload);
  curl_easy_setopt(easy, CURLOPT_READDATA, lane);
  curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
  curl_easy_setopt(easy, CURLOPT_SEEKDATA, lane);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, lane);
  if (set->ca_file)
    curl_easy_setopt(easy, CURLOPT_CAINFO, set->ca_file);
}

int object_exchange_setup(struct object_lane *lane) {
  object_exchange_clear(lane);
  lane->answer = (struct object_answer){0};
  lane->refused = 0;
  if (lane->part)
    seek_part(lane, 0);
  set_common(lane);
  if (!add_headers(lane) || !set_url(lane) || !set_verb(lane) ||
      curl_easy_setopt(lane->easy, CURLOPT_HTTPHEADER, lane->headers) != CURLE_OK)
    return fail(WEFT_ERR_NOMEM, "out of memory for a request to the object store");
  return 0;
}

void object_exchange_clear(struct object_lane *lane) {
  curl_easy_reset(lane->easy);
  curl_slist_free_all(lane->headers);
  lane->headers = NULL;
  free(lane->body);
  lane->body = NULL;
}
