// Command lines as gflags reads them, for a command that takes the command lines of a tool that was built with it. What
// is different then:
// - a long name may have one dash;
// - a flag has more words for yes and no, and they may also be the next argument;
// - `--noNAME` clears the flag NAME;
// - an empty value of some options means that they are not given (`may_be_empty` of the table).
#ifndef CLI_OPTION_GFLAGS_H
#define CLI_OPTION_GFLAGS_H

// A flag's value in Weft's own words: gflags' words in any case (t, true, y, yes, 1, and f, false, n, no, 0) become
// "yes" and "no"; every other text is returned as it is.
const char *cli_gflags_flag(const char *text);

#endif
