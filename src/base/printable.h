// Makes text from other processes safe for a terminal: removes control characters, which could control the terminal.
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

// Replaces each byte of a control character (C0, DEL, and C1 as UTF-8) and each byte that is not UTF-8 by '?'. Newlines
// stay. [any]
void printable_text(char *text);

// The same, and also replaces newlines. [any]
void printable_line(char *text);

#endif
