// Quotes words and values for a shell and for TOML.
#ifndef SLURM_SCRIPT_QUOTE_H
#define SLURM_SCRIPT_QUOTE_H

#include "base/text/text.h"

// Writes a word so that the shell leaves it unchanged.
void slurm_quote_word(struct text *text, const char *word);

// Writes a value in double quotes. The shell replaces $NAME and ${NAME} by the variables (by nothing if they are not
// set); all other characters stay unchanged.
void slurm_quote_expanded(struct text *text, const char *value);

// Writes a string of TOML.
void slurm_quote_toml(struct text *text, const char *value);

// Writes a path for Slurm's file name patterns, in which each "%" means itself.
void slurm_quote_pattern(struct text *text, const char *path);

// Writes a comment of one line: "# " and the text, without line breaks.
void slurm_quote_comment(struct text *text, const char *comment);

#endif
