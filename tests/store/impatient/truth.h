// What a key can contain after the calls so far: for a counter that all actors increase by transactions, and for a key
// that one actor puts and deletes.
#ifndef STORE_IMPATIENT_TRUTH_H
#define STORE_IMPATIENT_TRUTH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/store.h>

enum { TRUTH_COUNTERS = 2, TRUTH_MOST = 1 << 16, OWN_UNSURE = 512 };

// A counter's value; its bytes are the value of the key.
struct counted {
  uint64_t epoch; // drawn by the actor that created the counter
  uint64_t count; // from 1
  uint64_t actor;
  uint64_t serial; // of that actor's puts
};

struct truth {
  pthread_mutex_t lock;
  uint64_t generation;     // of the server; what follows holds for it
  uint64_t epoch, highest; // of the counter, 0: not seen yet; the highest count that is known
  int64_t revision;        // of that
  bool taken[TRUTH_MOST];  // the counts whose transaction was answered
};

// The highest count known before a read begins.
struct truth_mark {
  uint64_t generation, epoch, highest;
  int64_t revision;
};
struct truth_mark truth_mark(struct truth *truth, uint64_t generation);

// Each returns NULL, or what is wrong. They are for a call during which the server's generation was the same.
const char *truth_read(struct truth *truth, const struct truth_mark *mark, const struct weft_store_kv *kv);
const char *truth_wrote(struct truth *truth, const struct truth_mark *mark, const struct counted *value,
                        int64_t revision);

// A key with one writer, whose values are increasing numbers.
struct own {
  uint64_t generation;
  bool known;   // a put of this generation was answered
  bool present; // after the last call that was answered
  uint64_t number;
  int64_t revision; // it is not older than this
  bool unsure_delete;
  uint32_t num_unsure; // in all; the last ones are kept
  struct {
    uint64_t number;
    int64_t revision;   // 0: not seen yet
  } unsure[OWN_UNSURE]; // puts that may have happened, or may happen yet
};

// The server has another generation, or it is not known to which one the last put belongs.
void own_begin(struct own *own, uint64_t generation);
void own_put(struct own *own, uint64_t number, int64_t revision);
void own_perhaps_put(struct own *own, uint64_t number);
void own_deleted(struct own *own);
const char *own_read(struct own *own, const struct weft_store_kv *kv); // NULL: it is absent

#endif
