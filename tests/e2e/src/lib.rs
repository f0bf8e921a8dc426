//! End-to-end tests: the `proctor` binary, as its users call it. See `tests/`.
