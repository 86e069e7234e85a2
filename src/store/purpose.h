// The purpose for which the key of an embedded server's certificate is derived: server and client have to use the same.
#ifndef STORE_PURPOSE_H
#define STORE_PURPOSE_H

#define STORE_PURPOSE "weft store 1"

#endif
