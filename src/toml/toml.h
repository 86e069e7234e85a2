// TOML files as trees of values, each with its place in its file, so that whoever reads one can say what is wrong and
// where.
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

// Read-only once made: any thread may read it.
struct toml_value {
  enum toml_type type;
  const char *key;             // of a table's member; NULL: of an element of a list, and of the file itself
  const char *text;            // of a STRING itself; of numbers and booleans as TOML writes them; "" for the others
  int64_t integer;             // INTEGER
  double number;               // FLOAT, and of an INTEGER
  bool boolean;                // BOOLEAN
  struct toml_place at;        // of the value
  struct toml_place key_at;    // of the key; that of the value where there is none
  struct toml_value *children; // members of a TABLE in the order of the file, elements of an ARRAY
  size_t count;
};

#ifdef __cplusplus
extern "C" {
#endif

// Parses `text`, which is that of the file `path`. INVALID: it is not TOML; the last error is FILE:LINE:COLUMN and what
// is wrong there. UNSUPPORTED: compiled without tomlplusplus. `*root` is the caller's, to be freed with toml_free().
int toml_parse(struct toml_value **root, const char *path, const char *text);
void toml_free(struct toml_value *root); // NULL is legal

#ifdef __cplusplus
}
#endif

// Reads a file of at most 1 MiB and parses it. SYSTEM: it cannot be read. LIMIT: it is longer.
int toml_load(struct toml_value **root, const char *path);

// The member of that name, or NULL. `table` may be NULL or no table: it has no members then.
const struct toml_value *toml_get(const struct toml_value *table, const char *key);

// The text of a string that is not empty, or NULL. `value` may be NULL.
const char *toml_string(const struct toml_value *value);

// "a string", "a list", ...
const char *toml_type_name(enum toml_type type);

#endif
