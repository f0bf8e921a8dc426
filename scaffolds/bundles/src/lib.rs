//! An agent's command line as one folder that runs in any sandbox: its packages, the interpreter they need, and
//! the C library of that. Built once, named by its content, shown read-only at [`MOUNT`].

mod bin;
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
mod tree;
mod unpack;
mod version;
mod wheel;

pub use bundles::{Bundle, Bundles};
pub use error::BundleError;
pub use recipe::{BundleKind, BundleRecipe, NodePackage, NpmPackage};
pub use version::{LATEST, OtherVersion};

/// Where every sandbox sees its bundle. Fixed: programs of the bundle name their interpreter by it.
pub const MOUNT: &str = "/agent";

/// The folder of a static `bash` and `sh`, where the recipe carries a shell: to be last in `PATH`, so that the
/// image's own shell wins.
pub const SHELL: &str = "/agent/sh";

/// The file of certificates, where the recipe carries them: for `SSL_CERT_FILE` and its like.
pub const CERTIFICATES: &str = "/agent/etc/ca.pem";
