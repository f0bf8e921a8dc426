//! Infrastructure faults: failures that neither the model nor the task caused.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::error_text::{
    MACHINE_OPEN_FILES_MESSAGE, PROCESS_OPEN_FILES_MESSAGE, rewrite_os_errors,
};
use crate::one_line::replace_control_chars;

/// The layer that failed. Reports count faults by layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultLayer {
    /// The environment could not be built, or its layer could not be used.
    Environment,
    /// The sandbox did not start, died, or became unreachable.
    Sandbox,
    /// The sandbox could not be prepared or checked for leaks.
    Setup,
    /// The model endpoint failed after all retries.
    Model,
    /// The run directory could not be written.
    Record,
    /// The grading harness itself failed.
    Grade,
}

/// The cause of a fault. Together with the layer, the cause selects a row of `configs/tables/faults.toml`,
/// which says whether a retry may help and which other trials may hit the same fault.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum FaultCause {
    /// The run was interrupted; nothing failed.
    Cancelled,
    /// Something that existed before is gone: a sandbox died, or a layer or an image was removed.
    Gone,
    /// The whole back end does not respond.
    BackEndGone,
    /// Something that was requested does not exist: an image, a directory, an interpreter.
    Missing,
    /// Something exists but cannot be used: a mask that does not apply, a base for another back
    /// end.
    Invalid,
    /// A valid request was rejected, and a retry would be rejected too.
    Refused,
    /// An endpoint rejected one request in the middle of a trial without saying why.
    Rejected,
    /// A registry or an endpoint is unreachable.
    Unreachable,
    /// Proctor gave up on an endpoint that never responded in this run.
    Silent,
    /// Proctor gave up on an endpoint that had responded in this run.
    Outage,
    /// A setup command of an environment failed.
    SetupLine,
    /// Copies of the hidden solution or tests are readable.
    Leak,
    /// No space, quota or inodes are left.
    NoSpace,
    /// Something that must be writable is read-only.
    ReadOnly,
    /// Any other cause, or an unknown one.
    #[default]
    #[serde(other)]
    Other,
}

impl FaultCause {
    /// Returns the cause for an operating system error.
    pub fn from_io_error(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::NoSpace,
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::ReadOnly,
            ErrorKind::NotFound => Self::Missing,
            _ => Self::Other,
        }
    }

    /// Returns the cause for an error, from the first operating system error among its sources.
    pub fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<std::io::Error>()
                && Self::from_io_error(error) != Self::Other
            {
                return Self::from_io_error(error);
            }
            next = error.source();
        }
        Self::Other
    }

    /// Returns the cause for the last output of a failed program.
    pub fn from_output(text: &str) -> Self {
        // The C library's messages for ENOSPC and EDQUOT.
        if text.contains("No space left on device") || text.contains("Disk quota exceeded") {
            Self::NoSpace
        } else {
            Self::Other
        }
    }
}

impl fmt::Display for FaultCause {
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

/// Where a fault occurred, if known. Not recorded, because only the process that hits the fault
/// uses the origin, to decide whether the content of a sandbox caused the fault.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FaultOrigin {
    /// Not in a sandbox, or unknown.
    #[default]
    OutsideSandbox,
    /// A live sandbox rejected a request.
    SandboxRejection,
    /// A live sandbox rejected a request because its disk is full.
    SandboxDiskFull,
    /// The sandbox is gone.
    SandboxGone,
    /// The sandbox did not end a command at its time limit.
    CommandTimeout,
}

/// The output of the program that failed. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct FaultLog(Arc<[u8]>);

impl FaultLog {
    /// Returns the output as the program wrote it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Prints only the size, because a log can have several MiB.
impl fmt::Debug for FaultLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultLog({} bytes)", self.0.len())
    }
}

/// A fault for the operator, which is never shown to the model and never scored as a model failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What failed.
    pub layer: FaultLayer,
    /// What happened, as a sentence fragment that names the location.
    pub what: String,
    /// What the operator can do about it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The cause. Together with the layer, the cause decides whether a retry may help.
    #[serde(default)]
    pub cause: FaultCause,
    /// Where the fault occurred. Not recorded.
    #[serde(skip)]
    pub origin: FaultOrigin,
    /// The output of the program that failed, if there is any. Not part of the recorded fault,
    /// because the trial's directory keeps the log in a file of its own.
    #[serde(skip)]
    pub log: Option<FaultLog>,
}

impl Fault {
    /// Creates a fault of unknown cause, with system errors rewritten in plain words. If the limit
    /// on open files was reached, the fault gets a hint about that limit.
    pub fn new(layer: FaultLayer, message: impl Into<String>) -> Self {
        let what = rewrite_os_errors(&replace_control_chars(&message.into()));
        let hint = open_files_hint(&what).map(str::to_owned);
        Self {
            layer,
            what,
            hint,
            cause: FaultCause::Other,
            origin: FaultOrigin::OutsideSandbox,
            log: None,
        }
    }

    /// Sets where the fault occurred.
    #[must_use]
    pub fn origin(mut self, origin: FaultOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Sets the hint, which says what the operator can do. Does not replace a hint about open
    /// files, which is more precise.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        // The caller's hint covers the usual causes, such as a full disk or a directory's
        // permissions.
        if open_files_hint(&self.what).is_none() {
            self.hint = Some(hint.into());
        }
        self
    }

    /// Sets the cause.
    #[must_use]
    pub fn cause(mut self, cause: FaultCause) -> Self {
        self.cause = cause;
        self
    }

    /// Attaches the output of the program that failed.
    #[must_use]
    pub fn log(mut self, log: impl Into<Arc<[u8]>>) -> Self {
        self.log = Some(FaultLog(log.into()));
        self
    }

    /// Marks a fault of unknown cause as permanent.
    #[must_use]
    pub fn into_permanent(self) -> Self {
        match self.cause {
            FaultCause::Other => self.cause(FaultCause::Refused),
            _ => self,
        }
    }

    /// Whether the run was interrupted and nothing failed.
    pub fn is_cancelled(&self) -> bool {
        self.cause == FaultCause::Cancelled
    }

    /// Adds a prefix: `context: what`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.what = format!("{context}: {}", self.what);
        self
    }
}

/// Returns the hint for a failure caused by the limit on open files.
///
/// Such a failure shows only in the kernel's message, which every layer passes on. Errors from
/// inside a sandbox have no error number and do not match, because commands there have their own
/// limits.
pub fn open_files_hint(message: &str) -> Option<&'static str> {
    let says = |words: &str, number: &str| message.contains(words) || message.contains(number);
    if says(PROCESS_OPEN_FILES_MESSAGE, "(os error 24)") {
        return Some("raise the limit on open files (`ulimit -n`), or lower `jobs`");
    }
    says(MACHINE_OPEN_FILES_MESSAGE, "(os error 23)").then_some(
        "raise the machine's limit on open files (`sysctl fs.file-max`), or lower `jobs`",
    )
}

impl fmt::Display for FaultLayer {
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
    fn cause_displays_as_serialized_and_unknown_causes_parse_as_other() {
        for cause in
            [FaultCause::Other, FaultCause::BackEndGone, FaultCause::NoSpace, FaultCause::SetupLine]
        {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.to_string());
        }
        let read = |text: &str| serde_json::from_str::<Fault>(text).unwrap().cause;
        assert_eq!(read(r#"{"layer": "model", "what": "w", "lasting": true}"#), FaultCause::Other);
        assert_eq!(read(r#"{"layer": "model", "what": "w", "cause": "new"}"#), FaultCause::Other);
        assert_eq!(read(r#"{"layer": "model", "what": "w", "cause": "gone"}"#), FaultCause::Gone);
    }

    #[test]
    fn log_is_not_part_of_the_recorded_fault() {
        let fault = Fault::new(FaultLayer::Grade, "w").log(b"line 1\nline 2\n".to_vec());
        assert_eq!(fault.log.as_ref().unwrap().as_bytes(), b"line 1\nline 2\n");
        assert!(format!("{fault:?}").contains("FaultLog(14 bytes)"), "{fault:?}");
        let text = serde_json::to_string(&fault).unwrap();
        assert!(!text.contains("line"), "{text}");
        assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), Fault { log: None, ..fault });
    }

    #[test]
    fn cause_is_found_in_a_wrapped_system_error() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(FaultCause::from_error(&full), FaultCause::NoSpace);
        assert_eq!(FaultCause::from_error(&fmt::Error), FaultCause::Other);
        assert_eq!(
            FaultCause::from_output("pip: [Errno 28] No space left on device"),
            FaultCause::NoSpace
        );
    }

    #[test]
    fn open_file_limit_is_not_blamed_on_the_disk() {
        let disk = "check the free space and the permissions of the run directory";
        for number in [23, 24] {
            let error = std::io::Error::from_raw_os_error(number);
            let fault = Fault::new(FaultLayer::Record, format!("a/b: cannot be written: {error}"))
                .hint(disk);
            assert!(fault.hint.as_ref().unwrap().contains("open files"), "{fault}");
            assert!(!fault.to_string().contains("free space"), "{fault}");
        }
        let full =
            Fault::new(FaultLayer::Record, "a/b: No space left on device (os error 28)").hint(disk);
        assert_eq!(full.hint.unwrap(), disk);
    }
}
