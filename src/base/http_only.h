// The protocols that a handle of libcurl may use, for all layers that use libcurl.
#ifndef BASE_HTTP_ONLY_H
#define BASE_HTTP_ONLY_H

#include <curl/curl.h>

// Allows only HTTP and HTTPS, whatever a URL contains. libcurl before 7.85, as in Ubuntu 22.04, takes bits, not names.
static inline CURLcode http_only(CURL *handle) {
#if LIBCURL_VERSION_NUM >= 0x075500
  return curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
#else
  return curl_easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

#endif
