// Quotes words for the shell.
#include "slurm/script/quote.h"

#include <ctype.h>
#include <string.h>

static bool is_plain(const char *word) {
  size_t length = strlen(word);
  for (size_t i = 0; i < length; i++)
    if (!isalnum((unsigned char)word[i]) && !strchr("_-./:=,+@%", word[i]))
      return false;
  return length > 0;
}

void slurm_quote_word(struct text *text, const char *word) {
  if (is_plain(word)) {
    text_add(text, "%s", word);
    return;
  }
  text_add(text, "'");
  for (; *word; word++)
    text_add(text, *word == '\'' ? "'\\''" : "%c", *word);
  text_add(text, "'");
}

// The length of the name at `at`, which is behind $ and perhaps {; 0: there is none.
static size_t name_length(const char *at, bool braces) {
  size_t length = 0;
  if (!isalpha((unsigned char)*at) && *at != '_')
    return 0;
  while (isalnum((unsigned char)at[length]) || at[length] == '_')
    length++;
  return braces && at[length] != '}' ? 0 : length;
}

void slurm_quote_expanded(struct text *text, const char *value) {
  text_add(text, "\"");
  while (*value) {
    bool braces = value[0] == '$' && value[1] == '{';
    size_t length = *value == '$' ? name_length(value + 1 + braces, braces) : 0;
    if (length) {
      text_add(text, "${%.*s:-}", (int)length, value + 1 + braces);
      value += 1 + length + 2 * braces;
      continue;
    }
    text_add(text, strchr("\"\\`$", *value) ? "\\%c" : "%c", *value);
    value++;
  }
  text_add(text, "\"");
}

void slurm_quote_toml(struct text *text, const char *value) {
  text_add(text, "\"");
  for (; *value; value++) {
    unsigned char c = (unsigned char)*value;
    if (c < 0x20 || c == 0x7f)
      text_add(text, "\\u%04X", c);
    else
      text_add(text, c == '"' || c == '\\' ? "\\%c" : "%c", c);
  }
  text_add(text, "\"");
}

void slurm_quote_pattern(struct text *text, const char *path) {
  for (; *path; path++)
    text_add(text, *path == '%' ? "%%%%" : "%c", *path);
}

void slurm_quote_comment(struct text *text, const char *comment) {
  text_add(text, "# ");
  for (; *comment; comment++)
    text_add(text, "%c", (unsigned char)*comment < 0x20 ? ' ' : *comment);
  text_add(text, "\n");
}
