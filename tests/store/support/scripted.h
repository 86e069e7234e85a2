// A server that gives prepared answers to a client, whatever the client asks: one for each connection, in their order.
#ifndef TESTS_STORE_SCRIPTED_H
#define TESTS_STORE_SCRIPTED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCRIPTED_KEPT = 8, SCRIPTED_REQUEST = 4096 };

struct scripted_answer {
  const char *text;  // the whole of it, HTTP and all
  size_t size;       // 0: that of the string
  bool stays;        // the connection stays open behind it
  uint32_t pause_ms; // between two tenths of it; 0: it is sent at once
};

struct scripted {
  const struct scripted_answer *answers;
  size_t num_answers; // the last one is given again and again
  int listener;
  pthread_t thread;
  char url[64];
  int open[SCRIPTED_KEPT];
  size_t num_open;
  uint64_t longest_ns; // pause between two parts of an answer

  pthread_mutex_t lock;                           // guards what follows
  char requests[SCRIPTED_KEPT][SCRIPTED_REQUEST]; // the first ones
  size_t num_requests;
};

void scripted_start(struct scripted *server, const struct scripted_answer *answers, size_t num_answers);
void scripted_stop(struct scripted *server);

// Whether the request of that number, from 0, has arrived and contains `text`.
bool scripted_was_asked(struct scripted *server, size_t number, const char *text);

#endif
