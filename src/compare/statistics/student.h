// Student's t distribution.
#ifndef COMPARE_STATISTICS_STUDENT_H
#define COMPARE_STATISTICS_STUDENT_H

// The probability that |T| is at least |t| with `freedom` > 0 degrees of freedom; above 1e6 the normal distribution is
// used.
double student_both_tails(double t, double freedom);

// The t above 0 for which student_both_tails() is `chance`, in (0, 1).
double student_quantile(double chance, double freedom);

#endif
