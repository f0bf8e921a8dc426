//! Distribution functions of the standard normal and Student's t, from `statrs`.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

/// Returns the standard normal's probability below `z`.
pub(crate) fn cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// Returns the standard normal quantile of `p`; infinite at 0 and 1.
pub(crate) fn quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(0.0, 1.0))
}

/// Returns the z value of a two-sided interval.
pub(crate) fn two_sided_z(level: f64) -> f64 {
    quantile(0.5 + level / 2.0)
}

/// Returns the t value of a two-sided interval, or the z value if there are no degrees of freedom.
pub(crate) fn two_sided_t(level: f64, degrees_of_freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom)
        .map_or_else(|_| two_sided_z(level), |t| t.inverse_cdf(0.5 + level / 2.0))
}
