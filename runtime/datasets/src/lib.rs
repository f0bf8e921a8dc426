//! proctor-datasets.
