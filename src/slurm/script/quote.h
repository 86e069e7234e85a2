// Words and values as a shell, and TOML, read them back.
#ifndef SLURM_SCRIPT_QUOTE_H
#define SLURM_SCRIPT_QUOTE_H

#include "base/text/text.h"

// A word that the shell takes as it is.
void slurm_quote_word(struct text *text, const char *word);

// A value in double quotes, in which $NAME and ${NAME} stand for variables, empty where they are not set, and nothing
// else means anything.
void slurm_quote_expanded(struct text *text, const char *value);

// A string of TOML.
void slurm_quote_toml(struct text *text, const char *value);

// A path as Slurm's patterns of file names have it: its "%" stand for themselves.
void slurm_quote_pattern(struct text *text, const char *path);

// A comment of one line: "# " and the text, without what would end the line.
void slurm_quote_comment(struct text *text, const char *comment);

#endif
