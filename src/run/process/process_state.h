// Rank processes that stand still by no doing of their own: stopped, or held by the kernel.
#ifndef RUN_PROCESS_PROCESS_STATE_H
#define RUN_PROCESS_PROCESS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// What /proc/PID/stat says of a process.
struct process_state {
  char state;     // R, S, D, T, t, Z, ..., as in proc(5)
  uint64_t ticks; // of processor time that it has had
};

// Reads the text of /proc/PID/stat; false: it is none. The name of the program in it may be anything.
bool process_state_parse(struct process_state *state, const char *text);
bool process_state_read(struct process_state *state, pid_t pid); // false: there is no such process

// A state in which a process does nothing whatever comes, in words that say what helps; NULL: it is none.
const char *process_state_standstill(char state);

#endif
