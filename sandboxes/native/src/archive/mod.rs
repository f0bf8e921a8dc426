//! Images from archives: OCI layouts and what `docker save` writes.

mod compressed;
mod outer;
mod root;
mod unpack;

pub(crate) use unpack::{is_unpacked, lock, settings, sweep, unpack};
