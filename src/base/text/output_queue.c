// Writes pieces for which poll() promises room.
#include "base/text/output_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/time/clock.h"

// If poll() reports a pipe as writable, Linux takes so many bytes without blocking.
enum { PIECE = PIPE_BUF };

static size_t waiting(const struct output_queue *queue) {
  return queue->text.size - queue->written;
}

static void drop(struct output_queue *queue) {
  text_free(&queue->text);
  queue->written = 0;
}

static bool has_room(int fd) {
  struct pollfd out = {.fd = fd, .events = POLLOUT};
  return poll(&out, 1, 0) > 0; // also after an error, which write() reports
}

// Adds how many lines are missing before the next one.
static void add_left_out(struct output_queue *queue) {
  if (queue->left_out > 0)
    text_add(&queue->text, "... %" PRIu64 " line%s left out, since nobody read them in time\n", queue->left_out,
             text_s(queue->left_out));
  queue->left_out = 0;
}

void output_queue_push(struct output_queue *queue) {
  while (waiting(queue) > 0 && !queue->error && has_room(queue->fd)) {
    size_t size = waiting(queue) < PIECE ? waiting(queue) : PIECE;
    ssize_t done = write(queue->fd, queue->text.data + queue->written, size);
    if (done >= 0)
      queue->written += (size_t)done;
    else if (errno == EAGAIN)
      break; // another process was faster
    else if (errno != EINTR)
      queue->error = errno;
  }
  if (queue->error || waiting(queue) == 0)
    drop(queue);
}

bool output_queue_waits(const struct output_queue *queue) {
  return waiting(queue) > 0;
}

void output_queue_line(struct output_queue *queue, const char *line) {
  output_queue_push(queue);
  if (queue->error)
    return;
  if (waiting(queue) + strlen(line) >= OUTPUT_QUEUE_BYTES) {
    queue->left_out++;
    return;
  }
  add_left_out(queue);
  text_add(&queue->text, "%s\n", line);
  output_queue_push(queue);
}

void output_queue_add(struct output_queue *queue, const char *bytes, size_t size) {
  add_left_out(queue);
  text_add_bytes(&queue->text, bytes, size);
}

int output_queue_finish(struct output_queue *queue, const char *name, int stop_fd, uint64_t deadline_ns) {
  struct pollfd fds[2] = {{.fd = queue->fd, .events = POLLOUT}, {.fd = stop_fd, .events = POLLIN}};
  if (queue->text.failed && !queue->error)
    queue->error = ENOMEM;
  add_left_out(queue);
  output_queue_push(queue);
  while (output_queue_waits(queue)) {
    int ready = poll(fds, 2, clock_left_ms(deadline_ns));
    if (ready < 0 && errno != EINTR)
      return fail_errno(errno, "cannot write %s", name);
    output_queue_push(queue);
    if (output_queue_waits(queue) && ready > 0 && fds[1].revents)
      return fail(WEFT_ERR_CANCELED, "cannot write %s: nobody reads it, and a signal came", name);
    if (output_queue_waits(queue) && clock_passed(deadline_ns))
      return fail(WEFT_ERR_TIMEOUT, "cannot write %s: nobody reads it", name);
  }
  return queue->error ? fail_errno(queue->error, "cannot write %s", name) : 0;
}

void output_queue_free(struct output_queue *queue) {
  text_free(&queue->text);
}
