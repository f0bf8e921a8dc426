//! Which infrastructure faults are worth another try.

use proctor_types::{Fault, Layer};

/// Another try for faults that may pass; none for those that a second try would only repeat.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Tries of one trial in one call of the runtime, the first included.
    pub tries: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries: 3 }
    }
}

impl RetryPolicy {
    /// Whether a trial whose try number `done` ended in `fault` gets another.
    ///
    /// A dead sandbox or endpoint may be back in a moment. A setup that does not leak check, an
    /// environment that does not build and a disk that does not take the record fail the same way
    /// again, and trying would only hide them.
    pub fn again(&self, fault: &Fault, done: u32) -> bool {
        let may_pass = matches!(fault.layer, Layer::Sandbox | Layer::Model | Layer::Grade);
        may_pass && !fault.lasting && done < self.tries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_passing_faults_are_retried_and_only_so_often() {
        let policy = RetryPolicy::default();
        assert!(policy.again(&Fault::new(Layer::Sandbox, "gone"), 1));
        assert!(!policy.again(&Fault::new(Layer::Sandbox, "gone"), 3));
        assert!(!policy.again(&Fault::new(Layer::Setup, "a leak"), 1));
        assert!(!policy.again(&Fault::new(Layer::Model, "no such model").lasting(), 1));
    }
}
