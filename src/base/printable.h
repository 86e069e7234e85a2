// Text from others that a terminal is to show: without the control characters by which it can be made to do more.
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

// Puts '?' for each byte of a control character (C0, DEL, and C1 as UTF-8) and for each that is not UTF-8. A newline
// stays. [any]
void printable_text(char *text);

// The same, and newlines go too. [any]
void printable_line(char *text);

#endif
