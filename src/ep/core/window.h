// Memory that can be handed to another process: a sealed memfd and its mapping.
#ifndef EP_CORE_WINDOW_H
#define EP_CORE_WINDOW_H

#include <stddef.h>

struct ep_window {
  void *memory; // NULL: none
  size_t size;
};

// Creates `size` bytes of zeros (whole pages), all of them allocated, mapped and sealed against resizing. `*fd` is what
// to send to the peer; the caller closes it after that. LIMIT or NOMEM when there is not so much memory.
int ep_window_create(struct ep_window *window, size_t size, int *fd);

// Maps a peer's memfd. PROTOCOL: it has another size or can still be resized. The descriptor stays the caller's.
int ep_window_map(struct ep_window *window, size_t size, int fd);

// The same for reading only. Pages are mapped when they are read first.
int ep_window_map_read(struct ep_window *window, size_t size, int fd);

// Zeros of this process alone, all of them allocated.
int ep_window_private(struct ep_window *window, size_t size);

// Gives back all pages but the first, which become zeros, for all who map it: nobody reads or writes them any more.
void ep_window_discard(struct ep_window *window);

// Unmaps; legal on an empty window.
void ep_window_release(struct ep_window *window);

#endif
