#pragma once

namespace lockstep::stats {

/// Distribution function of the standard normal law.
double normal_cdf(double x);
/// Its inverse, p in (0, 1); relative error below 1e-9.
double normal_quantile(double p);
/// Distribution function of Student's t law; any dof > 0.
double student_t_cdf(double t, double dof);
/// Its inverse, p in (0, 1), dof >= 1.
double student_t_quantile(double p, double dof);

}  // namespace lockstep::stats
