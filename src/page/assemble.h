// How the parts of a page come together.
#ifndef PAGE_ASSEMBLE_H
#define PAGE_ASSEMBLE_H

#include <stdio.h>

#include <jansson.h>

// What the build has put into the tool: `size` bytes and a NUL. The chart library is empty where there was none.
struct page_asset {
  const char *data;
  size_t size;
};
extern const struct page_asset page_skeleton, page_style, page_script, page_library, page_licence;

// UNSUPPORTED: without the chart library.
int page_has_library(void);

// Writes the page of this document, whose reference it takes: also when it fails. NULL: memory ran out.
int page_assemble(FILE *out, const char *title, json_t *document);

// A JSON string of a text that may be no UTF-8. NULL: memory ran out.
json_t *page_string(const char *text);

#endif
