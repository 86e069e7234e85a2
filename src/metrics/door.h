// Admission to the server of metrics. A caller that has sent the head of a request (secure/lobby.h) gets one of a
// bounded number of places. When all are taken, a newcomer takes the place of the oldest caller that has not yet sent
// an allowed request. So any number of silent callers delays no scrape.
#ifndef METRICS_DOOR_H
#define METRICS_DOOR_H

#include <microhttpd.h>

enum { METRICS_CONNECTIONS = 32 };

struct metrics_door;

// On success the door owns the listener.
int metrics_door_make(struct metrics_door **door, int listener);
// Starts a thread that accepts connections for the daemon.
int metrics_door_start(struct metrics_door *door, struct MHD_Daemon *daemon);
// Call it when the connection has sent a request that is allowed. [daemon]
void metrics_door_known(struct metrics_door *door, struct MHD_Connection *connection);
// MHD_NotifyConnectionCallback; `arg` is the door. [daemon]
void metrics_door_notified(void *arg, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode what);
// Ends the thread, if it was started. NULL is legal.
void metrics_door_stop(struct metrics_door *door);
void metrics_door_free(struct metrics_door *door);

#endif
