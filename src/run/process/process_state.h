// Finds out whether a rank process stands still because it is stopped, or because the kernel holds it.
#ifndef RUN_PROCESS_PROCESS_STATE_H
#define RUN_PROCESS_PROCESS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// The fields of /proc/PID/stat that are used here.
struct process_state {
  char state;     // R, S, D, T, t, Z, ..., as in proc(5)
  uint64_t ticks; // of processor time that the process has used
};

// Reads the text of /proc/PID/stat. False: the text has another format. The program's name in it may contain any
// characters.
bool process_state_parse(struct process_state *state, const char *text);
bool process_state_read(struct process_state *state, pid_t pid); // false: there is no such process

// Describes a state in which a process cannot run, and says what helps. NULL: it can run in this state.
const char *process_state_standstill(char state);

#endif
