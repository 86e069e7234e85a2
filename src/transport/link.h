// Doubly linked lists as rings. The head of a list is a link too; while the list is empty, it is alone in its ring.
#ifndef TRANSPORT_LINK_H
#define TRANSPORT_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct link {
  struct link *next, *prev;
};

static inline void link_init(struct link *head) {
  head->next = head->prev = head;
}

static inline bool link_empty(const struct link *head) {
  return head->next == head;
}

// Adds a link at the end of the list.
static inline void link_add(struct link *head, struct link *link) {
  link->prev = head->prev;
  link->next = head;
  head->prev->next = link;
  head->prev = link;
}

// Removes a link, which may be in no list if it was initialised.
static inline void link_remove(struct link *link) {
  link->prev->next = link->next;
  link->next->prev = link->prev;
  link_init(link);
}

#define LINK_OF(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

#endif
