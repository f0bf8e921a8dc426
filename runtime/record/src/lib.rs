//! proctor-record.
