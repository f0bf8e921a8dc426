//! proctor-scaffold-api.
