//! proctor-grade.
