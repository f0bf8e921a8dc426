//! proctor-core.
