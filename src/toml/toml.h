// TOML files as trees of values. Each value has its place in the file, so that a reader of the tree can report what is
// wrong and where.
#ifndef TOML_TOML_H
#define TOML_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum toml_type { TOML_TABLE, TOML_ARRAY, TOML_STRING, TOML_INTEGER, TOML_FLOAT, TOML_BOOLEAN, TOML_TIME };

// Lines and columns count from 1.
struct toml_place {
  const char *path; // of the file
  unsigned line, column;
};

// Read-only after it was made: any thread may read it.
struct toml_value {
  enum toml_type type;
  const char *key;             // of a member of a table; NULL for an element of a list and for the file itself
  const char *text;            // the value of a STRING; numbers and booleans as TOML writes them; "" for other types
  int64_t integer;             // INTEGER
  double number;               // value of a FLOAT or an INTEGER
  bool boolean;                // BOOLEAN
  struct toml_place at;        // of the value
  struct toml_place key_at;    // of the key; if there is none, of the value
  struct toml_value *children; // members of a TABLE in the order of the file, elements of an ARRAY
  size_t count;
};

#ifdef __cplusplus
extern "C" {
#endif

// Parses `text`, the contents of the file `path`. INVALID: it is not TOML; the last error has FILE:LINE:COLUMN and what
// is wrong there. UNSUPPORTED: compiled without tomlplusplus. `*root` is the caller's, to be freed with toml_free().
int toml_parse(struct toml_value **root, const char *path, const char *text);
void toml_free(struct toml_value *root); // NULL is legal

#ifdef __cplusplus
}
#endif

// Reads a file of at most 1 MiB and parses it. SYSTEM: it cannot be read. LIMIT: it is longer.
int toml_load(struct toml_value **root, const char *path);

// The member of that name, or NULL. `table` may be NULL or another type than a table; then it has no members.
const struct toml_value *toml_get(const struct toml_value *table, const char *key);

// The text of a string that is not empty, or NULL. `value` may be NULL.
const char *toml_string(const struct toml_value *value);

// "a string", "a list", ...
const char *toml_type_name(enum toml_type type);

#endif
