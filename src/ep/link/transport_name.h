// Checks the name of the transport to other hosts that a caller asks for.
#ifndef EP_LINK_TRANSPORT_NAME_H
#define EP_LINK_TRANSPORT_NAME_H

enum { EP_TRANSPORT_NAME = 32 }; // bytes, a NUL included

// INVALID: there is no transport of that name. Whether a transport works on this host is only known when it is needed.
// Without this check an unknown name would also fail only then, and look like a rank that has gone.
int ep_check_transport(const char *name);

#endif
