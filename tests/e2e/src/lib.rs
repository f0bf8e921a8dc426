//! proctor-e2e.
