// Pages with pictures: one HTML file each, which holds all that it needs and opens without a network. The charts are
// drawn by Chart.js, which the build takes from Debian's or Ubuntu's package libjs-chart.js and puts into the tool.
//
// The numbers stand in the page as one JSON document, in a <script type="application/json">; the page's own script
// (assets/) draws the charts from it and puts each chart's data beside it as a table. A policy in the page lets no
// other script run and nothing be fetched, and what results say is only ever put in as text.
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include <stdio.h>

#include <jansson.h>

#include "measure/figures.h"
#include "measure/results.h"

// Whether a page could be written to that file, for commands that want to know before they measure. UNSUPPORTED: this
// tool was compiled without the chart library (the sentence names the package); SYSTEM: the path is no regular file, or
// its directory is not there or cannot be written. [any]
int page_check(const char *path);

// The same of a page and of the text for a node exporter (measure/prometheus.h); NULL: that one is not wished. INVALID:
// both are one file, in which one would be lost. [any]
int page_check_files(const char *html, const char *prometheus);

// Each writes a whole page. UNSUPPORTED as above; NOMEM; SYSTEM or LIMIT: `out` cannot be written. [any]
int page_of_run(FILE *out, const struct results *results);
// One or several documents in one page, each a run with its label. They may be of several kinds.
int page_of_figures(FILE *out, const struct figures *const *list, const char *const *labels, size_t count);
// A document of `weft compare` (member "weft_comparison"). INVALID: it is none; PROTOCOL names the member that is
// wrong.
int page_of_comparison(FILE *out, const json_t *comparison);

// The same into a file, whole or not at all; errors name the path. [any]
int page_save_run(const char *path, const struct results *results);
int page_save_figures(const char *path, const struct figures *const *list, const char *const *labels, size_t count);
int page_save_comparison(const char *path, const json_t *comparison);

// A document of `weft slurm report`, with this name, whose reference it takes, also after an error; NULL: memory ran
// out.
int page_save_batch(const char *path, const char *name, json_t *document);

// --- of files ---

enum page_file { PAGE_FILE_FIGURES, PAGE_FILE_COMPARISON, PAGE_FILE_OTHER };

// What a document says that it is; OTHER: results of an elastic run, or what has no page.
enum page_file page_file_kind(const json_t *json);

// A page of documents of `weft bench`, each a run that has its file's name, or of one of `weft compare`. Errors as
// above, and those of json_file_load() and figures_from_json(). [any]
int page_save_files(const char *path, const char *const *files, size_t count);

#endif
