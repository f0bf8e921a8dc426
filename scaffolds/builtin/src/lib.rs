//! proctor-scaffolds.
