//! Packages a command-line agent as one directory that runs in any sandbox. The directory contains
//! the agent's packages, their interpreter and its C library. A bundle is built once, identified by
//! its content, and mounted read-only at [`MOUNT`].

mod bin;
mod blocking;
mod bundles;
mod debian;
mod downloads;
mod elf;
mod error;
mod npm;
mod parts;
mod python;
mod recipe;
mod record;
mod requirements;
mod tree;
mod unpack;
mod version;
mod wheel;

pub use bundles::BundleStore;
pub use error::BundleError;
pub use recipe::{BundleKind, BundleRecipe, NodePackage, NpmPackage};
pub use record::Bundle;
pub use version::{LATEST, VersionedRecipe};

/// The mount point of the bundle in every sandbox. It is fixed, because the programs in a bundle
/// contain the path of their interpreter.
pub const MOUNT: &str = "/agent";

/// The directory of a static `bash` and `sh`, if the recipe includes a shell. It comes last in
/// `PATH`, so that the image's own shell takes precedence.
pub const SHELL: &str = "/agent/sh";

/// The file with certificates, if the recipe includes them. Used for `SSL_CERT_FILE` and similar
/// variables.
pub const CERTIFICATES_FILE: &str = "/agent/etc/ca.pem";
