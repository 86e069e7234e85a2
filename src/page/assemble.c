// Puts title, style, data and scripts into the skeleton.
#include "page/assemble.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

#include "base/fail.h"
#include "base/printable.h"
#include "base/text/digits.h"

int page_has_library(void) {
  return page_library.size > 0
             ? 0
             : fail(WEFT_ERR_UNSUPPORTED, "this weft was compiled without a chart library, so it has no pages: install "
                                          "the package libjs-chart.js (Debian, Ubuntu) and build weft again");
}

json_t *page_string(const char *text) {
  json_t *string = json_string(text);
  char *copy = string ? NULL : strdup(text);
  if (copy) {
    printable_line(copy);
    string = json_string(copy);
    free(copy);
  }
  return string;
}

// --- parts ---

static void put_escaped(FILE *out, const char *text) {
  for (; *text; text++) {
    switch (*text) {
    case '<':
      fputs("&lt;", out);
      break;
    case '>':
      fputs("&gt;", out);
      break;
    case '&':
      fputs("&amp;", out);
      break;
    case '"':
      fputs("&quot;", out);
      break;
    default:
      fputc(*text, out);
    }
  }
}

// Writes the name of an allowed script or style in a content security policy: the SHA-256 of the text between the tags.
static void put_hash(FILE *out, const struct page_asset *asset) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  char text[2 * SHA256_DIGEST_LENGTH];
  SHA256((const unsigned char *)asset->data, asset->size, digest);
  EVP_EncodeBlock((unsigned char *)text, digest, sizeof digest);
  fprintf(out, "'sha256-%s'", text);
}

// In JSON these three characters only occur in strings, where an escape means the same. Without them no string can end
// the HTML element or begin an HTML comment.
static int put_json(const char *piece, size_t size, void *arg) {
  FILE *out = arg;
  for (size_t i = 0; i < size; i++) {
    if (piece[i] == '<' || piece[i] == '>' || piece[i] == '&')
      fprintf(out, "\\u%04x", (unsigned)piece[i]);
    else
      fputc(piece[i], out);
  }
  return 0;
}

static int put_data(FILE *out, const json_t *document) {
  return json_dump_callback(document, put_json, out,
                            JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(DIGITS_IN_JSON)) == 0
             ? 0
             : fail(WEFT_ERR_NOMEM, "no memory for the data of a page");
}

// --- all of it ---

// The skeleton names each part between two of these characters, which occur nowhere else in it.
enum { MARK = '@' };

static const struct {
  const char *name;
  const struct page_asset *asset;
} assets[] = {{"style", &page_style}, {"script", &page_script}, {"library", &page_library}, {"licence", &page_licence}};

static bool is(const char *name, size_t length, const char *word) {
  return strlen(word) == length && strncmp(name, word, length) == 0;
}

// "title", "data", the name of an asset, or "hash-" and that name.
static int put_part(FILE *out, const char *name, size_t length, const char *title, const json_t *document) {
  bool hash = length > 5 && strncmp(name, "hash-", 5) == 0;
  if (is(name, length, "data"))
    return put_data(out, document);
  if (is(name, length, "title"))
    put_escaped(out, title);
  for (size_t i = 0; i < sizeof assets / sizeof *assets; i++) {
    if (hash && is(name + 5, length - 5, assets[i].name))
      put_hash(out, assets[i].asset);
    else if (is(name, length, assets[i].name))
      fwrite(assets[i].asset->data, 1, assets[i].asset->size, out);
  }
  return 0;
}

static int fill_skeleton(FILE *out, const char *title, const json_t *document) {
  int err = 0;
  for (const char *at = page_skeleton.data; *at && !err;) {
    size_t plain = strcspn(at, (char[]){MARK, '\0'});
    fwrite(at, 1, plain, out);
    at += plain;
    const char *end = *at ? strchr(at + 1, MARK) : NULL;
    if (!end)
      break;
    err = put_part(out, at + 1, (size_t)(end - at - 1), title, document);
    at = end + 1;
  }
  return err;
}

int page_assemble(FILE *out, const char *title, json_t *document) {
  int err = page_has_library();
  if (!err && !document)
    err = fail(WEFT_ERR_NOMEM, "no memory for the data of a page");
  errno = 0;
  if (!err)
    err = fill_skeleton(out, title, document);
  json_decref(document);
  if (!err && (fflush(out) || ferror(out)))
    err = fail_errno(errno, "the page cannot be written");
  return err;
}
