//! proctor-sandbox-api.
