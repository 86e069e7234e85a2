// The allowed contents of tables in a TOML file: each key with its types, its range and its contents.
#ifndef SLURM_SCHEMA_SCHEMA_H
#define SLURM_SCHEMA_SCHEMA_H

#include "slurm/core/faults.h"

// Types of a value, one bit each; SCHEMA_NUMBER allows both kinds of numbers.
enum {
  SCHEMA_TABLE = 1 << TOML_TABLE,
  SCHEMA_ARRAY = 1 << TOML_ARRAY,
  SCHEMA_STRING = 1 << TOML_STRING,
  SCHEMA_INTEGER = 1 << TOML_INTEGER,
  SCHEMA_NUMBER = 1 << TOML_INTEGER | 1 << TOML_FLOAT,
  SCHEMA_BOOLEAN = 1 << TOML_BOOLEAN,
  SCHEMA_SCALAR = SCHEMA_STRING | SCHEMA_NUMBER | SCHEMA_BOOLEAN,
};

struct slurm_schema;

struct slurm_key {
  const char *name;
  unsigned types;
  bool required;
  bool grid;                         // a list of such values is allowed and makes one run for each
  bool each;                         // an element of that list may itself be a list, with one value for each node
  int64_t min, max;                  // of numbers, both inclusive; both 0: any
  const char *const *choices;        // of strings, NULL at the end
  unsigned elements;                 // types of an ARRAY's elements; 0: any
  const struct slurm_schema *inside; // of a TABLE, or of the tables of an ARRAY; NULL: anything
  // for a string, or the strings of an ARRAY: NULL if it is right, else what would be right
  const char *(*check)(const char *text);
};

struct slurm_schema {
  const char *what; // in words, as "[[Tests]]"
  const struct slurm_key *keys;
  size_t count;
  bool open; // other keys than these are allowed too
};

#define SLURM_SCHEMA(what_, keys_, open_)                                                                              \
  { .what = (what_), .keys = (keys_), .count = sizeof(keys_) / sizeof((keys_)[0]), .open = (open_) }

// Reports each fault of the table and of its contents.
void slurm_schema_check(const struct slurm_schema *schema, const struct toml_value *table, struct slurm_faults *faults);

// Checks one value of a key: its type, range and contents.
void slurm_schema_check_value(const struct slurm_key *key, const struct toml_value *value, struct slurm_faults *faults);

const struct slurm_key *slurm_schema_find(const struct slurm_schema *schema, const char *name);

// Whether the member's key was reported as wrong and is similar to `name`. Callers then do not report that `name` is
// missing.
bool slurm_schema_misspells(const struct toml_value *member, const char *name, const struct slurm_faults *faults);

// The key of the schema that is similar to `name`; NULL: none is.
const char *slurm_schema_nearest(const struct slurm_schema *schema, const char *name);

#endif
