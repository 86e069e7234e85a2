// What remote_link.c and zero_copy.c need of put.c: the requests of a link.
#ifndef EP_REMOTE_PUT_H
#define EP_REMOTE_PUT_H

#include "ep/remote/remote_link.h"

// Makes all requests of a link whose peer is connected. [turn]
int ep_publish_prepare(struct ep_remote *remote);
void ep_publish_cancel(struct ep_remote *remote);          // asks all to end [turn]
bool ep_publish_under_way(const struct ep_remote *remote); // whether any has not [turn]
void ep_publish_unprepare(struct ep_remote *remote);       // [turn]
void ep_publish_free(struct ep_remote *remote);
// Calls `visit` for each request of the link. Whether it returned true for any. [turn]
bool ep_publish_each(const struct ep_remote *remote,
                     bool (*visit)(const struct ep_remote *remote, struct ep_post *post));

// The link of that number, NULL when it has gone. [turn]
struct ep_remote *ep_remote_find(struct ep_net *net, uint64_t id);

#endif
