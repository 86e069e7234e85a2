// Asks the kernel whose process is at the other end of a local socket.
#include "ep/handshake/peer_user.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"

// What the kernel reports for users that have no number in this user namespace; /proc/sys/kernel/overflowuid may set
// another value.
enum { OVERFLOW_UID = 65534 };

static unsigned long long first_number(const char *path, unsigned long long otherwise) {
  FILE *file = fopen(path, "re");
  unsigned long long number;
  if (!file)
    return otherwise;
  if (fscanf(file, "%llu", &number) != 1)
    number = otherwise;
  fclose(file);
  return number;
}

// Whether each user of the host has a number in this user namespace.
static bool maps_everybody(void) {
  unsigned long long inside, outside, count;
  FILE *file = fopen("/proc/self/uid_map", "re");
  if (!file)
    return false;
  bool all = fscanf(file, "%llu %llu %llu", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
             count >= UINT32_MAX;
  fclose(file);
  return all;
}

int ep_user_check(int socket) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  uid_t own = geteuid();
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return fail_errno(errno, "cannot find out which user owns the process at the other end");
  if (peer.uid != own)
    return fail(WEFT_ERR_AUTH, "the process at the other end belongs to user %u, but this rank to user %u", peer.uid,
                own);
  if (own == first_number("/proc/sys/kernel/overflowuid", OVERFLOW_UID) && !maps_everybody())
    return fail(WEFT_ERR_AUTH,
                "the owner of the process at the other end is not known: user %u stands for all users without a number "
                "in this user namespace",
                own);
  return 0;
}
