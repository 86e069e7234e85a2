// Rounds measured numbers to as many digits as they are exact to.
#ifndef BASE_TEXT_DIGITS_H
#define BASE_TEXT_DIGITS_H

// The number rounded to six significant digits, or to an integer if it has more digits before the point: no measurement
// here is more exact. A number that is not finite stays.
double digits_rounded(double value);

// For JSON_REAL_PRECISION(): so many digits print a rounded number (20.13), and not its binary value
// (20.129999999999999).
enum { DIGITS_IN_JSON = 15 };

#endif
