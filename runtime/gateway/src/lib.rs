//! proctor-gateway.
