//! Infrastructure faults: failures of neither the model nor the task.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::one_line::harmless;
use crate::plain_words::{MACHINE_HAS_NO_FILES, PROCESS_HAS_NO_FILES, of_system};

/// The layer that failed. A closed set that reports count by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The environment could not be built, or its layer could not be used.
    Environment,
    /// The sandbox did not start, died, or its channel broke.
    Sandbox,
    /// Set-up could not be prepared or checked for leaks.
    Setup,
    /// The model endpoint failed after all retries.
    Model,
    /// The run directory could not be written.
    Record,
    /// The grading harness itself failed.
    Grade,
}

/// The cause, in one stable word. With the layer it is the key of `configs/faults.toml`, which says
/// whether a retry may help and which other trials would meet the same fault.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The run was interrupted; nothing failed.
    Cancelled,
    /// Something that existed a moment ago is gone: a sandbox died, a layer or an image was
    /// removed.
    Gone,
    /// The whole back end does not respond.
    BackEndGone,
    /// Something named does not exist: an image, a directory, an interpreter.
    Missing,
    /// It exists but cannot be used: a mask that does not apply, a base for another back end.
    Invalid,
    /// A valid request was rejected, and would be again.
    Refused,
    /// An endpoint rejected one request in the middle of a trial without saying why.
    Rejected,
    /// A registry or an endpoint is unreachable.
    Unreachable,
    /// An endpoint that never responded in this run was given up.
    Silent,
    /// An endpoint that has responded in this run was given up.
    Outage,
    /// A set-up line of an environment failed.
    SetupLine,
    /// Copies of the hidden solution or tests are readable.
    Leak,
    /// No space, quota or inodes are left.
    NoSpace,
    /// It must be writable but is read-only.
    ReadOnly,
    /// None of these is known.
    #[default]
    #[serde(other)]
    Other,
}

impl Cause {
    /// The cause of an operating system error.
    pub fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::NoSpace,
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::ReadOnly,
            ErrorKind::NotFound => Self::Missing,
            _ => Self::Other,
        }
    }

    /// The same for an error that may have been caused by one of the operating system.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<std::io::Error>()
                && Self::of_io(error) != Self::Other
            {
                return Self::of_io(error);
            }
            next = error.source();
        }
        Self::Other
    }

    /// The same for a program's last output.
    pub fn of_text(text: &str) -> Self {
        // The C library's messages for ENOSPC and EDQUOT.
        if text.contains("No space left on device") || text.contains("Disk quota exceeded") {
            Self::NoSpace
        } else {
            Self::Other
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Other => "other",
            Self::Cancelled => "cancelled",
            Self::Gone => "gone",
            Self::BackEndGone => "back_end_gone",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Outage => "outage",
            Self::SetupLine => "setup_line",
            Self::Leak => "leak",
            Self::NoSpace => "no_space",
            Self::ReadOnly => "read_only",
        })
    }
}

/// Where a fault occurred, if known. Not recorded: in the process that met the fault, it decides
/// whether the content of a sandbox caused it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// Not in a sandbox, or unknown.
    #[default]
    Elsewhere,
    /// A live sandbox rejected a request.
    Refusal,
    /// A live sandbox rejected a request because its disk is full.
    FullDisk,
    /// The sandbox is gone.
    Gone,
    /// The sandbox did not end a command at its time limit.
    Overdue,
}

/// A fault for the operator. It is never shown to the model and never scored as a model failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What failed.
    pub layer: Layer,
    /// What happened, as a sentence fragment that names the place.
    pub what: String,
    /// What the operator can do about it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The cause. With the layer it decides whether a retry may help.
    #[serde(default)]
    pub cause: Cause,
    /// Where it occurred. Not recorded.
    #[serde(skip)]
    pub origin: Origin,
}

impl Fault {
    /// A fault of unknown cause, in plain words. A kernel message about open files gets its hint
    /// here.
    pub fn new(layer: Layer, what: impl Into<String>) -> Self {
        let what = of_system(&harmless(&what.into()));
        let hint = hint_of_open_files(&what).map(str::to_owned);
        Self { layer, what, hint, cause: Cause::Other, origin: Origin::Elsewhere }
    }

    /// Sets where it occurred.
    #[must_use]
    pub fn origin(mut self, origin: Origin) -> Self {
        self.origin = origin;
        self
    }

    /// Sets what the operator can do. A hint about open files is kept, because it is more precise.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        // The caller's hint covers what usually fails there, such as the disk or a directory's
        // permissions.
        if hint_of_open_files(&self.what).is_none() {
            self.hint = Some(hint.into());
        }
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn cause(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// Marks it as permanent, for a reason without a cause of its own.
    #[must_use]
    pub fn lasting(self) -> Self {
        match self.cause {
            Cause::Other => self.cause(Cause::Refused),
            _ => self,
        }
    }

    /// Whether the run was interrupted and nothing failed.
    pub fn is_cancelled(&self) -> bool {
        self.cause == Cause::Cancelled
    }

    /// Adds a prefix: `context: what`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what);
        self
    }
}

/// The hint for any failure at the limit on open files. Only the kernel's message shows it, which
/// every layer passes on. Commands in a sandbox have their own limits; the sandbox agent's errors
/// have no number.
pub fn hint_of_open_files(what: &str) -> Option<&'static str> {
    let says = |words: &str, number: &str| what.contains(words) || what.contains(number);
    if says(PROCESS_HAS_NO_FILES, "(os error 24)") {
        return Some("raise the limit on open files (`ulimit -n`), or lower `jobs`");
    }
    says(MACHINE_HAS_NO_FILES, "(os error 23)").then_some(
        "raise the machine's limit on open files (`sysctl fs.file-max`), or lower `jobs`",
    )
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "environment",
            Self::Sandbox => "sandbox",
            Self::Setup => "setup",
            Self::Model => "model",
            Self::Record => "record",
            Self::Grade => "grade",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fault: {}", self.layer, self.what)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_displays_as_serialized_and_reads_later_versions() {
        for cause in [Cause::Other, Cause::BackEndGone, Cause::NoSpace, Cause::SetupLine] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.to_string());
        }
        let read = |text: &str| serde_json::from_str::<Fault>(text).unwrap().cause;
        assert_eq!(read(r#"{"layer": "model", "what": "w", "lasting": true}"#), Cause::Other);
        assert_eq!(read(r#"{"layer": "model", "what": "w", "cause": "new"}"#), Cause::Other);
        assert_eq!(read(r#"{"layer": "model", "what": "w", "cause": "gone"}"#), Cause::Gone);
    }

    #[test]
    fn cause_of_finds_the_system_error_below_its_wrappers() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(Cause::of(&full), Cause::NoSpace);
        assert_eq!(Cause::of(&fmt::Error), Cause::Other);
        assert_eq!(Cause::of_text("pip: [Errno 28] No space left on device"), Cause::NoSpace);
    }

    #[test]
    fn missing_open_files_are_not_blamed_on_the_disk() {
        let disk = "check the free space and the permissions of the run directory";
        for number in [23, 24] {
            let error = std::io::Error::from_raw_os_error(number);
            let fault =
                Fault::new(Layer::Record, format!("a/b: cannot be written: {error}")).hint(disk);
            assert!(fault.hint.as_ref().unwrap().contains("open files"), "{fault}");
            assert!(!fault.to_string().contains("free space"), "{fault}");
        }
        let full =
            Fault::new(Layer::Record, "a/b: No space left on device (os error 28)").hint(disk);
        assert_eq!(full.hint.unwrap(), disk);
    }
}
