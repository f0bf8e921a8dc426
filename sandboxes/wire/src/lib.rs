//! proctor-wire.
