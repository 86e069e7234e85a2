// Measured numbers as people and programs read them.
#ifndef BASE_TEXT_DIGITS_H
#define BASE_TEXT_DIGITS_H

// The number with six significant digits, or all those before the point where it has more: no clock and no checksum of
// differences here is better than that. What is not finite stays.
double digits_rounded(double value);

// For JSON_REAL_PRECISION(): as many digits as show a rounded number (20.13), and not how it is stored
// (20.129999999999999).
enum { DIGITS_IN_JSON = 15 };

#endif
