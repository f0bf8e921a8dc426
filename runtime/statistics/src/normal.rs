//! The standard normal and Student's t, from `statrs`.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};

/// The share of the standard normal below `z`.
pub(crate) fn cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The z below which a share `p` lies; infinite at 0 and 1.
pub(crate) fn quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(0.0, 1.0))
}

/// The z of a two-sided interval.
pub(crate) fn two_sided(level: f64) -> f64 {
    quantile(0.5 + level / 2.0)
}

/// The same for Student's t; the normal's with no degrees of freedom.
pub(crate) fn two_sided_t(level: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom)
        .map_or_else(|_| two_sided(level), |t| t.inverse_cdf(0.5 + level / 2.0))
}
