// Breaks connections that libfabric must not close itself.
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/avoided.h"
#include "base/time/clock.h"
#include "transport/ofi/ofi.h"

enum { BREAK_MS = 100 };

// Whether ofi_break() does something here. It is for libfabric's TCP before 1.18: to close a connection on which the
// answer to a read has arrived in part crashes there, since it frees that read twice. If the connection breaks, it
// frees the read once.
static bool has_to_break(const struct ofi_worker *worker) {
  const struct fi_info *info = worker->info;
  return avoided_in(AVOIDED_OFI_CLOSE, FI_MAJOR(fi_version()), FI_MINOR(fi_version())) &&
         strncmp(info->fabric_attr->prov_name, "tcp", 3) == 0 &&
         (info->addr_format == FI_SOCKADDR_IN || info->addr_format == FI_SOCKADDR_IN6);
}

static bool leads_to(int fd, const void *name) {
  struct sockaddr_storage there;
  socklen_t size = sizeof there;
  if (getpeername(fd, (struct sockaddr *)&there, &size) != 0 ||
      there.ss_family != ((const struct sockaddr *)name)->sa_family)
    return false;
  if (there.ss_family == AF_INET6) {
    const struct sockaddr_in6 *is = (const struct sockaddr_in6 *)&there, *wanted = name;
    return is->sin6_port == wanted->sin6_port && memcmp(&is->sin6_addr, &wanted->sin6_addr, sizeof is->sin6_addr) == 0;
  }
  const struct sockaddr_in *is = (const struct sockaddr_in *)&there, *wanted = name;
  return is->sin_port == wanted->sin_port && is->sin_addr.s_addr == wanted->sin_addr.s_addr;
}

// Through a duplicate: another thread may close that descriptor, and open another file under its number.
static void shut_down(int fd, const void *name) {
  int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0)
    return;
  if (leads_to(own, name))
    shutdown(own, SHUT_RDWR);
  close(own);
}

static void shut_down_all(const void *name) {
  DIR *folder = opendir("/proc/self/fd");
  if (!folder)
    return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(folder))
      shut_down(fd, name);
  }
  closedir(folder);
}

void ofi_break(struct ofi_worker *worker, struct ofi_peer *peer) {
  struct sockaddr_storage name = {0};
  size_t size = sizeof name;
  if (peer->flow.running == 0 || !has_to_break(worker) || fi_av_lookup(worker->av, peer->address, &name, &size) != 0)
    return;
  uint64_t deadline = clock_deadline_ms(BREAK_MS);
  bool cutting = peer->cutting;
  peer->cutting = true;
  shut_down_all(&name);
  while (peer->flow.running > 0 && !clock_passed(deadline))
    ofi_complete_sources(worker);
  peer->cutting = cutting;
}
