// Assembles a page from its parts.
#ifndef PAGE_ASSEMBLE_H
#define PAGE_ASSEMBLE_H

#include <stdio.h>

#include <jansson.h>

// A file that the build has embedded in the tool: `size` bytes and a NUL. The chart library is empty if the build did
// not find it.
struct page_asset {
  const char *data;
  size_t size;
};
extern const struct page_asset page_skeleton, page_style, page_script, page_library, page_licence;

// 0 if the tool has the chart library, else UNSUPPORTED.
int page_has_library(void);

// Writes the page of this document and takes over its reference, also on failure. A NULL document means that memory ran
// out.
int page_assemble(FILE *out, const char *title, json_t *document);

// Makes a JSON string of a text that may not be valid UTF-8. NULL: memory ran out.
json_t *page_string(const char *text);

#endif
