//! proctor-report.
