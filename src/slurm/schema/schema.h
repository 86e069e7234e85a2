// What tables of a TOML file may have: each key with its types, its range, and what is in it.
#ifndef SLURM_SCHEMA_SCHEMA_H
#define SLURM_SCHEMA_SCHEMA_H

#include "slurm/core/faults.h"

// Types of a value, a bit each; SCHEMA_NUMBER takes both kinds of numbers.
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
  bool grid;                              // a list of such values is one run for each
  bool each;                              // where such a value of a grid may be a list, with one for each node
  int64_t min, max;                       // of numbers, both inclusive; both 0: any
  const char *const *choices;             // of strings, NULL at the end
  unsigned elements;                      // types of an ARRAY's elements; 0: any
  const struct slurm_schema *inside;      // of a TABLE, or of the tables of an ARRAY; NULL: anything
  const char *(*check)(const char *text); // of a string, or of the strings of an ARRAY: NULL when it is right,
                                          // else what would be
};

struct slurm_schema {
  const char *what; // in words, as "[[Tests]]"
  const struct slurm_key *keys;
  size_t count;
  bool open; // keys that are not named are right, too
};

#define SLURM_SCHEMA(what_, keys_, open_)                                                                              \
  { .what = (what_), .keys = (keys_), .count = sizeof(keys_) / sizeof((keys_)[0]), .open = (open_) }

// Tells each fault of the table and of what is in it.
void slurm_schema_check(const struct slurm_schema *schema, const struct toml_value *table, struct slurm_faults *faults);

// One value of a key: its types, range, and what is in it.
void slurm_schema_check_value(const struct slurm_key *key, const struct toml_value *value, struct slurm_faults *faults);

const struct slurm_key *slurm_schema_find(const struct slurm_schema *schema, const char *name);

// Whether the member's key is told to be wrong, and near to `name`: that this one is missing is not told as well.
bool slurm_schema_misspells(const struct toml_value *member, const char *name, const struct slurm_faults *faults);

// Which of the schema's keys is near to `name`; NULL: none is.
const char *slurm_schema_nearest(const struct slurm_schema *schema, const char *name);

#endif
