// host TRANSPORT DEVICE [SETTING...]: a worker on a test host that reads commands line by line; hosts.py runs two of
// them.
//   connect ADDRESS KEY (both in hex)   write|read TIMEOUT_MS (then it is cancelled)   check BYTE   fill BYTE
//   disconnect
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "transport/transport.h"

enum { LENGTH = 3000000, CANCELED_MS = 20000, LINE = 4 * (TRANSPORT_MAX_ADDRESS + TRANSPORT_MAX_KEY) };

static const struct transport *transport;
static struct transport_worker *worker;
static struct transport_region *region;
static struct transport_peer *peer;
static struct transport_remote *remote;
static unsigned char *bytes;
static int messages, lost;

static void on_message(void *arg, const void *message, size_t size) {
  (void)arg, (void)message, (void)size;
  messages++;
}

static void on_peer(void *arg, struct transport_peer *which, int err, const char *why) {
  (void)arg, (void)which, (void)err, (void)why;
  lost++;
}

static int must(int rc, const char *what) {
  if (rc != 0) {
    printf("failed %s: %s: %s\n", what, weft_err_name(rc), weft_last_error());
    exit(1);
  }
  return rc;
}

static void print_hex(const unsigned char *data, size_t size) {
  putchar(' ');
  for (size_t i = 0; i < size; i++)
    printf("%02x", data[i]);
}

static size_t read_hex(const char *text, unsigned char *data) {
  size_t size = 0;
  for (unsigned value; sscanf(text + 2 * size, "%2x", &value) == 1; size++)
    data[size] = (unsigned char)value;
  return size;
}

static void introduce(void) {
  unsigned char address[TRANSPORT_MAX_ADDRESS], key[TRANSPORT_MAX_KEY];
  size_t address_size = sizeof address, key_size = sizeof key;
  must(transport->address(worker, address, &address_size), "address");
  must(transport->pack(region, key, &key_size), "pack");
  print_hex(address, address_size);
  print_hex(key, key_size);
  putchar('\n');
}

static void meet(char *line) {
  static unsigned char data[LINE];
  char *address = strtok(line, " "), *key = strtok(NULL, " ");
  must(transport->connect(worker, data, read_hex(address, data), NULL, &peer), "connect");
  must(transport->import(peer, data, read_hex(key, data), &remote), "import");
  puts("ok");
}

static void run(enum weft_transfer_op op, uint64_t timeout_ms) {
  struct transport_piece piece = {.local = region,
                                  .remote = remote,
                                  .local_address = (uintptr_t)bytes,
                                  .remote_address = remote->address,
                                  .length = LENGTH};
  struct transport_request request = {
      .peer = peer, .op = op, .pieces = &piece, .num_pieces = 1, .message = "done", .message_size = 5};
  must(transport->prepare(&request), "prepare");
  uint64_t cancel = clock_deadline_ms(timeout_ms), deadline = clock_deadline_ms(timeout_ms + CANCELED_MS);
  int rc = transport->post(&request);
  while (rc == 0 && request.state == TRANSPORT_IN_FLIGHT && !clock_passed(deadline)) {
    transport->progress(worker);
    if (clock_passed(cancel))
      transport->cancel(&request);
  }
  printf("%s %s\n", request.state == TRANSPORT_IN_FLIGHT ? "STUCK" : weft_err_name(request.state), request.why);
  if (request.state != TRANSPORT_IN_FLIGHT)
    transport->unprepare(&request);
}

static void check(int wanted) {
  uint32_t wrong = 0;
  for (size_t i = 0; i < LENGTH; i++)
    wrong += bytes[i] != wanted;
  printf("%u %d %d\n", wrong, messages, lost);
}

static void obey(char *line) {
  int number = 0;
  if (strncmp(line, "connect ", 8) == 0) {
    meet(line + 8);
  } else if (sscanf(line, "write %d", &number) == 1) {
    run(WEFT_TRANSFER_WRITE, (uint64_t)number);
  } else if (sscanf(line, "read %d", &number) == 1) {
    run(WEFT_TRANSFER_READ, (uint64_t)number);
  } else if (sscanf(line, "check %d", &number) == 1) {
    check(number);
  } else if (sscanf(line, "fill %d", &number) == 1) {
    memset(bytes, number, LENGTH);
    puts("ok");
  } else if (strncmp(line, "disconnect", 10) == 0) {
    transport->disconnect(peer);
    puts("ok");
  }
}

int main(int argc, char **argv) {
  static char line[LINE];
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (argc < 3 || transport_find(argv[1], &transport) != 0) {
    printf("skipped: %s\n", weft_last_error());
    return 77;
  }
  struct transport_options options = {.size = sizeof options,
                                      .on_message = on_message,
                                      .on_peer = on_peer,
                                      .device = argv[2],
                                      .settings = (const char *const *)argv + 3};
  must(transport->open(&options, &worker), "open");
  bytes = aligned_alloc(4096, (LENGTH + 4095) / 4096 * 4096);
  struct transport_memory memory = {.address = bytes, .length = LENGTH, .fd = -1};
  must(bytes ? transport->reg(worker, &memory, &region) : WEFT_ERR_NOMEM, "reg");
  memset(bytes, 0, LENGTH);
  introduce();
  for (;;) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    transport->progress(worker);
    if (poll(&input, 1, 0) == 0)
      continue;
    if (!fgets(line, sizeof line, stdin))
      break;
    obey(line);
  }
  transport->close(worker);
  free(bytes);
  return 0;
}
