// Pages with charts. Each page is one HTML file that contains everything it needs and opens without a network. The
// charts are drawn by Chart.js, which the build takes from Debian's or Ubuntu's package libjs-chart.js and puts into
// the tool.
//
// The numbers are in the page as one JSON document, in a <script type="application/json">. The page's own script
// (assets/) draws the charts from it and shows each chart's data in a table beside the chart. A content security policy
// in the page forbids all other scripts and all network requests, and the script inserts strings of the results only as
// text.
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H

#include <stdio.h>

#include <jansson.h>

#include "measure/figures.h"
#include "measure/results.h"

// Checks whether a page can be written to that file, for commands that want to know before they measure. UNSUPPORTED:
// this tool was compiled without the chart library (the sentence names the package); SYSTEM: the path is not a regular
// file, or its directory does not exist or cannot be written. [any]
int page_check(const char *path);

// The same for a page and for the text for a node exporter (measure/prometheus.h); NULL: that one is not wanted.
// INVALID: both are one file, so one of them would be lost. [any]
int page_check_files(const char *html, const char *prometheus);

// Each writes a whole page. UNSUPPORTED as above; NOMEM; SYSTEM or LIMIT: `out` cannot be written. [any]
int page_of_run(FILE *out, const struct results *results);
// Writes one or several documents to one page, each as a run with its label. They may be of several kinds.
int page_of_figures(FILE *out, const struct figures *const *list, const char *const *labels, size_t count);
// Writes a document of `weft compare` (member "weft_comparison"). INVALID: it is not such a document; PROTOCOL: the
// error names the member that is wrong.
int page_of_comparison(FILE *out, const json_t *comparison);

// The same into a file, which is written completely or not at all; errors name the path. [any]
int page_save_run(const char *path, const struct results *results);
int page_save_figures(const char *path, const struct figures *const *list, const char *const *labels, size_t count);
int page_save_comparison(const char *path, const json_t *comparison);

// Writes the page of a document of `weft slurm report` under this name. It takes over the document's reference, also
// after an error; a NULL document means that memory ran out.
int page_save_batch(const char *path, const char *name, json_t *document);

// --- pages of files ---

enum page_file { PAGE_FILE_FIGURES, PAGE_FILE_COMPARISON, PAGE_FILE_OTHER };

// The kind of a document, by its members. OTHER: results of an elastic run, or a document that has no page.
enum page_file page_file_kind(const json_t *json);

// Writes a page of documents of `weft bench`, each as a run named after its file, or of one document of `weft compare`.
// Errors as above, and those of json_file_load() and figures_from_json(). [any]
int page_save_files(const char *path, const char *const *files, size_t count);

#endif
