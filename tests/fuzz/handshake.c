// The first packet of a caller at a rank: a valid handshake message, combined by exclusive or with the input's bytes,
// behind two bytes that give the length of the packet. An accepted message agrees in every size. After those comes a
// byte: if it is not 0, the service thread handles a whole call, with descriptors that the byte chooses.
#include "ep/link/handshake_wire.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ep/handshake/handshake.h"
#include "ep/host/host.h"
#include "fuzz/support/fuzz.h"
#include "fuzz/support/ranks.h"

enum { OWN_RANK = 3, PEER_RANK = 5, LONGER = 64 };

static struct weft_ep make_rank(int32_t rank) {
  struct weft_ep ep = {.engine = &ep_host_engine,
                       .rank = rank,
                       .incarnation = 7,
                       .capacity = 8,
                       .experts_per_rank = 2,
                       .dtype = WEFT_EP_FP8};
  ep_layout_init(&ep.layout, 16, 256, 4, ep.dtype, WEFT_EP_COMBINE_BF16);
  return ep;
}

// --- whole calls ---

enum { MAX_FDS = 14, FD_PIPE = 16, FD_OPEN = 32, FD_LARGE = 64 };

static int make_memory(size_t size, bool seal) {
  int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
  if (seal)
    FUZZ_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  return fd;
}

// As a handshake message brings them, except what `choice` changes.
static size_t make_fds(const weft_ep_t *ep, uint8_t choice, int fds[MAX_FDS + 1]) {
  size_t count = choice % (MAX_FDS + 1);
  for (size_t i = 0; i < count; i++) {
    size_t size = i == EP_FD_BELL ? EP_DOORBELL_SIZE : ep->layout.area;
    if (choice & FD_PIPE && i == EP_FD_AREA)
      fds[i] = eventfd(0, EFD_CLOEXEC);
    else
      fds[i] = make_memory(choice & FD_LARGE ? 2 * size : size, !(choice & FD_OPEN));
  }
  return count;
}

static void send_packet(int socket, const void *packet, size_t size, const int *fds, size_t count) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
  } control = {0};
  struct iovec data = {.iov_base = (void *)packet, .iov_len = size};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
  if (count > 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
  }
  FUZZ_CHECK(sendmsg(socket, &message, 0) == (ssize_t)size);
}

static int count_fds(void) {
  int next = dup(0); // the lowest that is free
  close(next);
  return next;
}

static void call(const struct fuzz_ranks *ranks, const void *packet, size_t size, uint8_t choice) {
  int ends[2], fds[MAX_FDS + 1], before = count_fds();
  size_t count = make_fds(ranks->own, choice, fds);
  FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  send_packet(ends[1], packet, size, fds, count);
  for (size_t i = 0; i < count; i++)
    close(fds[i]);
  ep_answer_local(ranks->own, ends[0]);
  close(ends[1]);
  fuzz_ranks_part(ranks);
  FUZZ_CHECK(count_fds() == before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct weft_ep own, peer;
  if (own.capacity == 0) {
    own = make_rank(OWN_RANK);
    peer = make_rank(PEER_RANK);
  }
  struct fuzz_input input = {(const char *)data, size};
  struct ep_handshake_message right;
  uint16_t shorter; // 0: the right length
  fuzz_bytes(&input, &shorter, sizeof shorter);
  const uint8_t *behind = data + sizeof shorter + sizeof right + LONGER;
  bool whole = size > sizeof shorter + sizeof right + LONGER && *behind != 0;
  right = whole ? ep_handshake_message_make(fuzz_ranks()->peer, EP_HELLO, fuzz_ranks()->own->incarnation)
                : ep_handshake_message_make(&peer, EP_HELLO, own.incarnation);
  size_t length = sizeof right - shorter % sizeof right;
  if (shorter % 16 == 15)
    length = sizeof right + shorter / 16 % LONGER;
  uint8_t mask[sizeof right + LONGER], *packet = malloc(length); // of this very size, so that a read behind it shows
  fuzz_bytes(&input, mask, sizeof mask);
  bool changed = false;
  for (size_t i = 0; i < length; i++) {
    packet[i] = (i < sizeof right ? ((const uint8_t *)&right)[i] : 0) ^ mask[i];
    changed |= mask[i] != 0;
  }
  const struct ep_handshake_message *message = (const struct ep_handshake_message *)packet;
  if (whole && length > 0) {
    call(fuzz_ranks(), packet, length, *behind);
  } else if (ep_handshake_message_check(&own, message, length) == 0) {
    FUZZ_CHECK(length == sizeof right && memchr(message->why, '\0', sizeof message->why));
    FUZZ_CHECK(message->rank >= 0 && message->rank < (int32_t)own.capacity && message->rank != own.rank);
    FUZZ_CHECK(message->area_bytes == own.layout.area && message->topk == own.layout.topk);
    FUZZ_CHECK(message->max_tokens == own.layout.max_tokens && message->hidden == own.layout.hidden);
  } else {
    FUZZ_CHECK(changed || length != sizeof right);
  }
  free(packet);
  return 0;
}
