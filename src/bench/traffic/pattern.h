// Patterns of traffic: how many bytes each worker sends to each other worker, and in which pieces. A plan is a list of
// patterns that run one after the other. Patterns come from matrices, from a YAML list of matrices, or from the plan of
// a KV cache.
#ifndef BENCH_TRAFFIC_PATTERN_H
#define BENCH_TRAFFIC_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <weft/agent.h>

enum {
  TRAFFIC_MAX_RANKS = 1024,
  TRAFFIC_MAX_PATTERNS = 256,
  TRAFFIC_MAX_SHARDS = 65536,
  TRAFFIC_MAX_SLEEP_S = 3600,
  TRAFFIC_NAME = 64,
  TRAFFIC_KINDS = 2,
};
#define TRAFFIC_MAX_PAIR (UINT64_C(1) << 40) // bytes of a pair

enum traffic_memory { TRAFFIC_HOST, TRAFFIC_CUDA };
extern const char *const traffic_memory_names[]; // "host", "cuda", NULL

// Pieces of one size.
struct traffic_pieces {
  uint64_t bytes; // of each
  uint32_t count;
};

// The data that one worker sends to another. At the sender the pieces lie one after the other, pieces of the first kind
// before pieces of the second. At the receiver they are in another order (traffic_place()), like the pages of a cache,
// so that no transport can merge them.
struct traffic_pair {
  uint32_t from, to;
  uint64_t bytes; // of all pieces
  struct traffic_pieces kinds[TRAFFIC_KINDS];
};

struct traffic_pattern {
  char name[TRAFFIC_NAME];
  uint32_t ranks; // rows of its matrix
  uint32_t num_pairs;
  struct traffic_pair *pairs; // by sender, then by receiver; only those with bytes
  enum weft_transfer_op op;   // WRITE: the sender starts the transfers; READ: the receiver does
  bool memory_given;          // the pattern gives the memory; else the command does
  enum traffic_memory memory;
  uint32_t shards;
  double before_s, after_s; // gaps before its start and after its end; part of the sequence, not of the pattern
  json_t *metadata;         // metadata of the file, unchanged; or NULL
};

struct traffic_plan {
  uint32_t ranks; // of the largest pattern
  uint32_t num_patterns;
  struct traffic_pattern *patterns;
};

void traffic_plan_free(struct traffic_plan *plan);
// Adds an empty pattern with defaults (WRITE, one shard) at the end; NULL: LIMIT or NOMEM.
struct traffic_pattern *traffic_plan_add(struct traffic_plan *plan);
// Adds a pair at the end of a pattern. NOMEM; LIMIT: more pieces than a transfer can have.
int traffic_pattern_add(struct traffic_pattern *pattern, const struct traffic_pair *pair);
// Divides `bytes` into `shards` pieces as evenly as possible; fewer pieces if there are fewer bytes.
void traffic_pair_split(struct traffic_pair *pair, uint64_t bytes, uint32_t shards);

uint32_t traffic_pair_pieces(const struct traffic_pair *pair);
uint64_t traffic_pattern_bytes(const struct traffic_pattern *pattern);
uint32_t traffic_pattern_senders(const struct traffic_pattern *pattern);
uint32_t traffic_pattern_receivers(const struct traffic_pattern *pattern);
bool traffic_pattern_has(const struct traffic_pattern *pattern, uint32_t rank); // as sender or receiver

// --- sources ---

// Parses a number of bytes in a matrix: digits, optionally a fraction, and optionally K, M, G or T (powers of 1024),
// optionally followed by B or iB: "0", "64K", "1.5MB". A fraction of a byte is dropped. False: it is no such number, or
// more than TRAFFIC_MAX_PAIR.
bool traffic_size_parse(const char *text, size_t size, uint64_t *bytes);

// A matrix out of text: row = sender, column = receiver, blanks between columns; lines that begin with '#' and empty
// ones do not count. `source` names it in errors, all of which have line and column: INVALID. `workers`: how many there
// are; 0: as many as it has rows. Pairs get pattern->shards pieces.
int traffic_matrix_parse(struct traffic_pattern *pattern, const char *text, size_t size, const char *source,
                         uint32_t workers);
// The same out of a file, whose name is the pattern's. SYSTEM: it cannot be read; LIMIT: it is too large.
int traffic_matrix_load(struct traffic_pattern *pattern, const char *path, uint32_t workers);

// The list `traffic_patterns` of a YAML document; its matrix files are sought from the folder of `source` on. INVALID
// with file, line and column. UNSUPPORTED: built without libyaml.
int traffic_yaml_parse(struct traffic_plan *plan, const char *text, size_t size, const char *source, uint32_t workers);
int traffic_yaml_load(struct traffic_plan *plan, const char *path, uint32_t workers);

// Reads a text file of at most `most` bytes. `*text` belongs to the caller and ends with a NUL. `what` is for errors.
int traffic_file_read(const char *path, const char *what, size_t most, char **text, size_t *size);

#endif
