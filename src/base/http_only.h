// What a handle of libcurl may speak, for the layers that have one.
#ifndef BASE_HTTP_ONLY_H
#define BASE_HTTP_ONLY_H

#include <curl/curl.h>

// Nothing but HTTP and HTTPS, whatever a URL says. libcurl before 7.85, as Ubuntu 22.04 has it, knows bits, not names.
static inline CURLcode http_only(CURL *handle) {
#if LIBCURL_VERSION_NUM >= 0x075500
  return curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  return curl_easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

#endif
