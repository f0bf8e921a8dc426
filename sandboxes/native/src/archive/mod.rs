//! Images from archives: OCI layouts and the output of `docker save`.

mod compressed;
mod outer;
mod root;
mod unpack;

pub(crate) use unpack::{is_unpacked, lock, settings, sweep, unpack};
