// Workers in processes of their own, on the server of a test.
#ifndef TESTS_MEET_PROCESSES_H
#define TESTS_MEET_PROCESSES_H

// 64 at once: fails the test unless they get the ranks 0 to 63, and leave nothing.
void meet_many(const char *url);
// A worker of four is killed at some point, again and again: fails the test unless the others name it, and nothing is
// left.
void meet_kills(const char *url);
// All workers are killed, before or after all had come, and others started at once: fails the test unless these take
// the same ranks.
void meet_restarts(const char *url);
// The worker that has the store embedded is killed: fails the test unless the others name it.
void meet_kill_of_the_store(void);

#endif
