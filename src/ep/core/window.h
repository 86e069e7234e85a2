// Memory that can be shared with another process: a sealed memfd and its mapping.
#ifndef EP_CORE_WINDOW_H
#define EP_CORE_WINDOW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct ep_window {
  void *memory; // NULL: none
  size_t size;
};

// Creates `size` bytes of zeros (whole pages), all of them allocated, mapped and sealed against resizing. `*fd` is the
// descriptor to send to the peer; the caller closes it after that. LIMIT or NOMEM: there is not enough memory.
int ep_window_create(struct ep_window *window, size_t size, int *fd);

// Takes the descriptors of a packet: the first `cap` are stored in fds[cap], and others are closed. Returns how many
// there were.
uint32_t ep_window_take_fds(struct msghdr *packet, int *fds, uint32_t cap);

// Maps a peer's memfd. PROTOCOL: it has another size, or can still be resized. The caller keeps the descriptor.
int ep_window_map(struct ep_window *window, size_t size, int fd);

// The same for reading only. Pages are mapped at their first read.
int ep_window_map_read(struct ep_window *window, size_t size, int fd);

// Creates zeros that only this process sees, all of them allocated.
int ep_window_private(struct ep_window *window, size_t size);

// Returns all pages except the first one to the system; they become zeros in all processes that map them. Nobody may
// read or write them any more.
void ep_window_discard(struct ep_window *window);

// Unmaps; legal on an empty window.
void ep_window_release(struct ep_window *window);

#endif
