//! Converts errors from the kernel to refusals.

use std::fmt;

use proctor_wire::{Refusal, RefusalKind};
use rustix::io::Errno;

pub fn new_refusal(kind: RefusalKind, message: impl Into<String>) -> Refusal {
    Refusal { why: kind, what: message.into() }
}

pub fn cancelled_refusal() -> Refusal {
    new_refusal(RefusalKind::Cancelled, "cancelled")
}

/// Converts an error from the kernel. `operation` describes the failed operation, including the
/// path.
pub fn from_errno(error: Errno, operation: impl fmt::Display) -> Refusal {
    let why = match error {
        Errno::NOENT => RefusalKind::NotFound,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => RefusalKind::Permission,
        Errno::ISDIR => RefusalKind::IsADirectory,
        Errno::NOTDIR => RefusalKind::NotADirectory,
        // The kernel returns this error if RESOLVE_BENEATH is set and the path leads outside the
        // directory.
        Errno::XDEV => RefusalKind::Outside,
        Errno::NOSPC | Errno::DQUOT => RefusalKind::NoSpace,
        Errno::FBIG | Errno::NAMETOOLONG => RefusalKind::TooLarge,
        Errno::INVAL => RefusalKind::BadRequest,
        _ => RefusalKind::Io,
    };
    new_refusal(why, format!("{operation}: {}", describe_errno(error)))
}

/// Returns the kernel's message without Rust's "(os error 2)".
pub fn describe_errno(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    match text.rfind(" (os error") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
