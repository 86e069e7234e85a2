// What the key of an embedded server's certificate is derived for: server and client have to name the same.
#ifndef STORE_PURPOSE_H
#define STORE_PURPOSE_H

#define STORE_PURPOSE "weft store 1"

#endif
