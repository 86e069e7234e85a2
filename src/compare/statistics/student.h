// Student's t distribution.
#ifndef COMPARE_STATISTICS_STUDENT_H
#define COMPARE_STATISTICS_STUDENT_H

// The chance that |T| is at least |t| with `freedom` > 0 degrees of freedom; above 1e6 it is the normal distribution.
double student_both_tails(double t, double freedom);

// The t above 0 with which student_both_tails() is `chance`, in (0, 1).
double student_quantile(double chance, double freedom);

#endif
