//! proctor-docker.
