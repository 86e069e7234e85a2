// What a rank accepts from a neighbour on the socket between them (remote/neighbours.h): faulty packets, windows that
// cannot be mapped, and the release of descriptors and mappings.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cmocka_all.h"

#include "ep/core/engine.h"
#include "ep/remote/neighbours.h"
#include "ep/support/alone.h"
#include "support/entries.h"

enum { CARRIER = 2, SOURCE = 3, NUMBER = 77 };

static const uint64_t magic = 0x41455241544657u; // "WFTAREA"

// As neighbours.c sends it.
struct offer {
  uint64_t magic, number, source_incarnation;
  int32_t source;
  uint32_t version;
};

static const struct offer right = {magic, NUMBER, 9, SOURCE, EP_LAYOUT_VERSION};

static weft_store_t *store;
static weft_ep_t *ep;
static struct ep_link carrier = {.rank = CARRIER, .incarnation = 5}, source = {.rank = SOURCE, .incarnation = 9};
static int theirs; // the carrier's end of the socket

static int set_up(void **state) {
  (void)state;
  int ends[2];
  assert_int_equal(weft_store_open_local(&store), 0);
  struct weft_ep_options options = alone_options(store);
  options.mode = WEFT_EP_THROUGHPUT;
  ep = alone_open(&options);
  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  carrier.socket = ends[0];
  theirs = ends[1];
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  weft_ep_close(ep);
  weft_store_close(store);
  close(carrier.socket);
  if (theirs >= 0)
    close(theirs);
  return 0;
}

// Sends bytes with descriptors, all of them this one.
static void send_packet(const void *bytes, size_t size, int fd, uint32_t fds) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(8 * sizeof fd)];
  } control = {0};
  struct iovec data = {.iov_base = (void *)bytes, .iov_len = size};
  struct msghdr packet = {.msg_iov = &data, .msg_iovlen = 1};
  if (fds > 0) {
    packet.msg_control = control.bytes;
    packet.msg_controllen = CMSG_SPACE(fds * sizeof fd);
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds * sizeof fd);
    for (uint32_t i = 0; i < fds; i++)
      memcpy(CMSG_DATA(header) + i * sizeof fd, &fd, sizeof fd);
  }
  assert_int_equal(sendmsg(theirs, &packet, 0), (ssize_t)size);
}

static uint32_t areas(void) {
  uint32_t count = 0;
  for (const struct ep_neighbour_area *area = atomic_load(&ep->links.areas); area; area = area->next)
    count++;
  return count;
}

// A window whose every byte is `value`.
static int window(uint8_t value) {
  struct ep_window made;
  int fd;
  assert_int_equal(ep_window_create(&made, ep->layout.area, &fd), 0);
  memset(made.memory, value, made.size);
  ep_window_release(&made);
  return fd;
}

static void a_packet_that_is_wrong_ends_the_link(void **state) {
  (void)state;
  struct offer wrong[] = {right, right, right, right, right, right, right, right};
  wrong[0].magic++;
  wrong[1].version++;
  wrong[2].number = 0;
  wrong[3].number = (uint64_t)1 << EP_AREA_BITS;
  wrong[4].source = -1;
  wrong[5].source = ALONE_CAPACITY;
  wrong[6].source = 0;       // this rank
  wrong[7].source = CARRIER; // which no rank on another host is
  int fd = window(1), before = support_descriptors();
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    send_packet(&wrong[i], sizeof wrong[i], fd, 1);
    assert_int_equal(ep_neighbours_receive(ep, &carrier), EPROTO);
  }
  char longer[sizeof right + 1] = {0};
  memcpy(longer, &right, sizeof right);
  send_packet(longer, sizeof longer, fd, 1);
  assert_int_equal(ep_neighbours_receive(ep, &carrier), EPROTO);
  send_packet(&right, sizeof right - 1, fd, 1);
  assert_int_equal(ep_neighbours_receive(ep, &carrier), EPROTO);
  assert_int_equal(areas(), 0);
  assert_int_equal(support_descriptors(), before);
  close(fd);
}

static void a_window_that_cannot_be_mapped_is_none(void **state) {
  (void)state;
  int before = support_descriptors();
  int fds[] = {-1, memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING), open("/dev/null", O_RDONLY | O_CLOEXEC), -1};
  assert_int_equal(ftruncate(fds[1], (off_t)ep->layout.area), 0); // it could be truncated while a rank reads it
  struct ep_window shorter;
  assert_int_equal(ep_window_create(&shorter, ep->layout.area - EP_PAGE, &fds[3]), 0);
  ep_window_release(&shorter);
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
    send_packet(&right, sizeof right, fds[i], i > 0);
    assert_int_equal(ep_neighbours_receive(ep, &carrier), 0);
    if (fds[i] >= 0)
      close(fds[i]);
  }
  assert_int_equal(areas(), 0);
  assert_int_equal(support_descriptors(), before);
}

static void a_window_is_found_by_its_source_and_number(void **state) {
  (void)state;
  int fd = window(0xAB), before = support_descriptors();
  assert_int_equal(ep_neighbours_receive(ep, &carrier), 0); // nothing has come
  send_packet(&right, sizeof right, fd, 3);
  send_packet(&right, sizeof right, fd, 1); // once more
  for (int i = 0; i < 2; i++)
    assert_int_equal(ep_neighbours_receive(ep, &carrier), 0);
  assert_int_equal(areas(), 1);
  assert_int_equal(support_descriptors(), before);
  close(fd);
  const uint8_t *area = ep_neighbours_area(ep, &source, NUMBER);
  assert_non_null(area);
  assert_int_equal(area[ep->layout.area - 1], 0xAB);
  assert_null(ep_neighbours_area(ep, &source, NUMBER + 1));
  struct ep_link newer = source;
  newer.incarnation++;
  assert_null(ep_neighbours_area(ep, &newer, NUMBER));
}

// The carrier is in no view and no link of this rank leads to it: the window goes, after some operations.
static void a_window_goes_when_nobody_names_it(void **state) {
  (void)state;
  assert_int_equal(areas(), 1);
  assert_true(ep_neighbours_sweep(ep));
  for (uint32_t i = 0; i < EP_DEPTH; i++) {
    ep->next_op++;
    assert_true(ep_neighbours_sweep(ep));
    assert_int_equal(areas(), 1);
  }
  ep->next_op++;
  assert_false(ep_neighbours_sweep(ep));
  assert_int_equal(areas(), 0);
}

static bool keeps(uint32_t count) {
  ep_neighbours_sweep_unlinked(ep);
  return areas() == count;
}

// On CUDA memory: a carrier that has come anew shows its new window. What names the old one may still be under way.
static void a_window_stays_while_there_is_a_link_to_its_carrier(void **state) {
  (void)state;
  struct ep_link anew = {.rank = CARRIER, .incarnation = carrier.incarnation + 1, .socket = carrier.socket};
  struct offer next = right;
  int fd = window(1);
  send_packet(&right, sizeof right, fd, 1);
  assert_int_equal(ep_neighbours_receive(ep, &carrier), 0);
  atomic_store(&ep->links.by_rank[CARRIER], &carrier);
  assert_true(keeps(1));
  ep->links.superseded = &carrier;
  atomic_store(&ep->links.by_rank[CARRIER], &anew);
  next.number++;
  send_packet(&next, sizeof next, fd, 1);
  assert_int_equal(ep_neighbours_receive(ep, &anew), 0);
  assert_true(keeps(2));
  ep->links.superseded = NULL;
  assert_true(keeps(1));
  assert_null(ep_neighbours_area(ep, &source, right.number));
  next.number++; // of a newer link of the same two
  send_packet(&next, sizeof next, fd, 1);
  assert_int_equal(ep_neighbours_receive(ep, &anew), 0);
  assert_true(keeps(1));
  assert_non_null(ep_neighbours_area(ep, &source, next.number));
  atomic_store(&ep->links.by_rank[CARRIER], NULL);
  assert_true(keeps(0));
  close(fd);
}

static void a_packet_of_no_bytes_leaves_no_descriptors(void **state) {
  (void)state;
  int fd = window(1), before = support_descriptors();
  send_packet(&right, 0, fd, 2);
  assert_int_equal(ep_neighbours_receive(ep, &carrier), EPIPE);
  assert_int_equal(support_descriptors(), before);
  close(fd);
}

static void a_hang_up_is_one(void **state) {
  (void)state;
  close(theirs);
  theirs = -1;
  assert_int_equal(ep_neighbours_receive(ep, &carrier), EPIPE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_packet_that_is_wrong_ends_the_link),
      cmocka_unit_test(a_window_that_cannot_be_mapped_is_none),
      cmocka_unit_test(a_window_is_found_by_its_source_and_number),
      cmocka_unit_test(a_window_goes_when_nobody_names_it),
      cmocka_unit_test(a_window_stays_while_there_is_a_link_to_its_carrier),
      cmocka_unit_test(a_packet_of_no_bytes_leaves_no_descriptors),
      cmocka_unit_test(a_hang_up_is_one),
  };
  return cmocka_run_group_tests_name("ep_neighbours", tests, set_up, tear_down);
}
