//! Unpacks images from archives, which are OCI layouts or come from `docker save`.

mod cache;
mod compressed;
mod image_archive;
mod root;
mod unpack;

pub(crate) use cache::{ArchiveCache, ArchivePin};
pub(crate) use unpack::{
    archive_name, cached_name, image_settings, is_unpacked, lock_archive, name_from_folder, sweep,
    unpack,
};
