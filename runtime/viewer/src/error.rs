//! Errors that prevent a page from being shown.

use std::io;

use proctor_record::RecordError;
use thiserror::Error;

/// An error in the viewer.
#[derive(Debug, Error)]
pub enum ViewError {
    /// A run cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A template is invalid.
    #[error(transparent)]
    Template(#[from] minijinja::Error),
    /// A page cannot be written or served.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The port cannot be used.
    #[error("cannot listen on 127.0.0.1:{port}: {source}")]
    Port { port: u16, source: io::Error },
}
