//! Images from archives: OCI layouts and the output of `docker save`.

mod compressed;
mod outer;
mod room;
mod root;
mod unpack;

pub(crate) use room::{Hold, Room};
pub(crate) use unpack::{is_unpacked, known, lock, name, name_of, settings, sweep, unpack};
