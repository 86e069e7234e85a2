// What may be asked for as the way to other hosts, by its name alone.
#ifndef EP_LINK_TRANSPORT_NAME_H
#define EP_LINK_TRANSPORT_NAME_H

enum { EP_TRANSPORT_NAME = 32 }; // bytes, a NUL included

// INVALID: there is none of that name. Whether it works here shows when it is needed; one that there is not would be
// missed only then, too, and taken for a rank that has gone.
int ep_check_transport(const char *name);

#endif
