// Ranks on two declared hosts, even ranks on one and odd ranks on the other, for tests of rows that cross to another
// host once (host/send/): counts network traffic where it is posted, and kills and stops ranks at critical moments. The
// test is linked with --wrap for the functions in strikes.c.
#ifndef TESTS_EP_REMOTE_STRIKES_H
#define TESTS_EP_REMOTE_STRIKES_H

#include <stdatomic.h>
#include <sys/types.h>

#include "ep/core/engine.h"
#include "ep/support/processes.h"

enum { RANKS = 6, DEADLINE_MS = 60000, STEPS_BEFORE = 3, STEPS_AFTER = 15 };

enum strikes {
  NOBODY,
  CARRIER_KILLED_BEFORE,  // before its rows have arrived, as far as the source knows
  CARRIER_STOPPED_BEFORE, // at the same moment
  CARRIER_KILLED_AFTER,   // after its rows have arrived, and before the ranks that read them know
  SOURCE_KILLED,          // when one of three ranks has been notified of its piece
  READER_KILLED,          // when it reads rows of a carrier
  READER_STOPPED,         // at the same moment
  READER_SLOW,            // at the same moment; meanwhile the carrier is sent more
  SOURCE_LIES,            // it writes `lie` to the reader in the place of the word that says where its last row lies
};

enum { SOURCE = 0, CARRIER = 1, READER = 3 };

struct scenario {
  uint32_t ranks;
  enum strikes strikes;
  int32_t victim;
  int32_t cannot_map; // a rank that maps no window of its neighbours; -1: all do
  uint64_t lie;
  // Shared by the processes.
  struct board *board;
};

struct board {
  _Atomic pid_t pids[RANKS];
  _Atomic uint64_t operations[RANKS];
  _Atomic uint64_t crossed[RANKS], expected[RANKS], pairs[RANKS], bytes[RANKS], wire_bytes[RANKS];
  _Atomic uint32_t read_of_the_dead, struck, fenced, wrong;
};

// Of this process.
extern const struct scenario *scenario;
extern struct rank *self;
extern bool armed;                         // the strike may happen now
extern uint64_t rows_posted, bytes_posted; // rows of dispatches, and all bytes of these

// This process is that rank of the scenario.
void strikes_begin(const struct scenario *of, struct rank *rank);
bool on_one_host(int32_t a, int32_t b);
bool maps(int32_t rank);
// Whether the rank and another one of its host read each other's windows.
bool shares_rows(int32_t rank);
// Whether this rank knows of all ranks of the other host which windows they read.
bool knows_all(struct rank *rank);

#endif
