// Student's t by the regularised incomplete beta function: P(|T| >= t) = I_x(v/2, 1/2) with x = v / (v + t^2) (NIST
// Digital Library of Mathematical Functions, 8.17). Lentz's method evaluates its continued fraction 8.17.22.
#include "compare/statistics/student.h"

#include <math.h>

static double nonzero(double x) {
  return fabs(x) < 1e-300 ? 1e-300 : x;
}

// The fraction 1 / (1 + d1 / (1 + d2 / ...)).
static double fraction(double a, double b, double x) {
  enum { STEPS = 400 };
  double c = 1, d = 1 / nonzero(1 - (a + b) * x / (a + 1)), product = d;
  for (int m = 1; m <= STEPS; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / nonzero(1 + even * d);
    c = nonzero(1 + even / c);
    product *= c * d;
    d = 1 / nonzero(1 + odd * d);
    c = nonzero(1 + odd / c);
    product *= c * d;
    if (fabs(c * d - 1) < 1e-14)
      break;
  }
  return product;
}

static double incomplete_beta(double a, double b, double x) {
  if (x <= 0 || x >= 1)
    return x <= 0 ? 0 : 1;
  double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
  // The fraction converges fast on this side of the mean.
  return x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a : 1 - front * fraction(b, a, 1 - x) / b;
}

double student_both_tails(double t, double freedom) {
  if (freedom > 1e6)
    return erfc(fabs(t) / sqrt(2));
  return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double student_quantile(double chance, double freedom) {
  double low = 0, high = 1;
  while (student_both_tails(high, freedom) > chance && high < 1e12)
    high *= 2;
  for (int i = 0; i < 100 && high - low > 1e-12 * high; i++) {
    double middle = (low + high) / 2;
    if (student_both_tails(middle, freedom) > chance)
      low = middle;
    else
      high = middle;
  }
  return (low + high) / 2;
}
