// Queries a library in a child process, which may hang or crash, and judges the answer.
#include "doctor/library/ask.h"

#include "base/avoided.h"
#include "base/process.h"
#include "base/time/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_SIZE = 8192 };

// Keeps what the libraries print out of the report.
static void silence(void) {
  int nothing = open("/dev/null", O_RDWR);
  if (nothing < 0)
    return;
  dup2(nothing, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
}

static pid_t start(doctor_ask_fn *ask, int *from) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -1;
  pid_t child = fork();
  if (child == 0) {
    silence();
    FILE *out = fdopen(ends[1], "w");
    if (out) {
      ask(out);
      fflush(out);
    }
    _exit(0); // without the library's exit handlers, which may hang too
  }
  close(ends[1]);
  *from = ends[0];
  if (child < 0)
    close(ends[0]);
  return child;
}

// Reads everything that arrives before the deadline; false: there may be more.
static bool read_answer(int from, uint64_t deadline, char answer[ANSWER_SIZE]) {
  size_t used = 0;
  while (used < ANSWER_SIZE - 1) {
    struct pollfd ready = {.fd = from, .events = POLLIN};
    if (poll(&ready, 1, clock_left_ms(deadline)) <= 0) {
      if (clock_passed(deadline))
        break;
      continue; // a signal
    }
    ssize_t size = read(from, answer + used, ANSWER_SIZE - 1 - used);
    if (size <= 0) {
      answer[used] = '\0';
      return true;
    }
    used += (size_t)size;
  }
  answer[used] = '\0';
  return used == ANSWER_SIZE - 1;
}

static const char *after(const char *line, const char *word) {
  size_t size = strlen(word);
  return strncmp(line, word, size) == 0 ? line + size : NULL;
}

static void add_transport(struct doctor_library_facts *facts, const char *name) {
  size_t used = strlen(facts->transports), size = strlen(name);
  if (used + size + 3 <= sizeof facts->transports)
    snprintf(facts->transports + used, sizeof facts->transports - used, "%s%s", used ? ", " : "", name);
}

static void take_lines(struct doctor_library_facts *facts, char *answer) {
  char *rest = NULL;
  for (char *line = strtok_r(answer, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    const char *text;
    if ((text = after(line, "missing ")))
      snprintf(facts->missing, sizeof facts->missing, "%s", text);
    else if ((text = after(line, "version ")))
      snprintf(facts->version, sizeof facts->version, "%.63s", text);
    else if ((text = after(line, "transport ")))
      add_transport(facts, text);
  }
  facts->present = !*facts->missing;
}

void doctor_ask_library(struct doctor_library_facts *facts, doctor_ask_fn *ask, uint32_t timeout_ms) {
  char answer[ANSWER_SIZE];
  int from = -1, status = 0;
  pid_t child = start(ask, &from);
  if (child < 0) {
    snprintf(facts->missing, sizeof facts->missing, "no process could be started to ask it");
    return;
  }
  bool answered = read_answer(from, clock_deadline_ms(timeout_ms), answer);
  close(from);
  facts->hung = !answered || !process_reap(child, &status, clock_deadline_ms(timeout_ms)); // it may answer, and not end
  if (facts->hung)
    process_end(child);
  if (!facts->hung && WIFSIGNALED(status))
    facts->signal = WTERMSIG(status);
  take_lines(facts, answer);
}

// Reports what Weft avoids in that version. Nothing is wrong with the host, so there is nothing to mend.
static void report_avoided(const char *name, const char *version, struct doctor_report *report) {
  for (const struct avoided *row = NULL; (row = avoided_next(name, version, row));) {
    doctor_find(report, DOCTOR_OK, "%s %s: Weft does not use %s", name, version, row->what);
    doctor_means(report, "%s; %s", row->why, row->instead);
  }
}

void doctor_judge_library(const struct doctor_library_facts *facts, const struct doctor_library_words *words,
                          struct doctor_report *report) {
  const char *version = *facts->version ? facts->version : "of unknown version";
  if (!facts->present) {
    doctor_find(report, DOCTOR_NOTE, "%s cannot be loaded: %s", words->name, facts->missing);
    doctor_means(report, "%s", words->means);
    doctor_fix(report, "install it (package %s)", words->package);
  } else if (facts->hung || facts->signal) {
    if (facts->hung)
      doctor_find(report, DOCTOR_PROBLEM, "%s %s does not answer in time", words->name, version);
    else
      doctor_find(report, DOCTOR_PROBLEM, "%s %s was ended by signal %d (%s)", words->name, version, facts->signal,
                  strsignal(facts->signal));
    doctor_means(report, "programs that use it will fail in the same way");
    doctor_fix(report, "install another version (package %s), or hide the devices on which it fails", words->package);
  } else if (!*facts->transports) {
    doctor_find(report, DOCTOR_PROBLEM, "%s %s is installed, but none of its transports works", words->name, version);
    doctor_means(report, "%s", words->means);
    doctor_fix(report,
               "check that its environment variables do not exclude all of them, and that the plug-ins of its package "
               "(%s) are installed",
               words->package);
  } else {
    doctor_find(report, DOCTOR_OK, "%s %s: %s", words->name, version, facts->transports);
    report_avoided(words->name, version, report);
  }
}
