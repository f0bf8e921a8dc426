//! A finding of the leak check. Its description is precise enough to fix the leak, but does not
//! reveal the hidden content.

use std::fmt;

use proctor_sandbox_api::wire::{Finding, FindingKind, RawPath, roots};
use serde::{Deserialize, Serialize};

use super::secrets::LabeledSecrets;

/// The location of content that must not be in a sandbox. Never contains the content itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    pub kind: LeakKind,
    /// The file in the sandbox, or the variable. ` > ` separates an archive from its member.
    pub place: String,
    /// Description of the copied content.
    pub what: String,
    /// The path to remove. `None` if the leak cannot be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<RawPath>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakKind {
    /// Hidden text in a file.
    Copy,
    /// Hidden content in an archive or a compressed file.
    ArchivedCopy,
    /// Hidden content in a repository's objects or logs.
    History,
    Bytecode,
    /// A copy of the package under test at a path from which an interpreter can import it.
    ImportableCopy,
    SecretVariable,
    SecretFile,
    SecretMount,
    EngineSocket,
}

impl LeakKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::ArchivedCopy => "archived copy",
            Self::History => "history",
            Self::Bytecode => "bytecode",
            Self::ImportableCopy => "importable copy",
            Self::SecretVariable => "secret variable",
            Self::SecretFile => "secret file",
            Self::SecretMount => "secret mount",
            Self::EngineSocket => "engine socket",
        }
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.kind.name(), self.place, self.what)
    }
}

impl Leak {
    pub(super) fn from_finding(finding: &Finding, labels: &LabeledSecrets) -> Self {
        let path = finding.path.as_bytes();
        let repository = roots::repository_root(path);
        let (kind, what) = match &finding.what {
            FindingKind::Text { block, matched } => {
                let need = labels.secrets.blocks.get(*block as usize);
                let of = need.map_or(0, |block| block.windows.len());
                let label = labels.blocks.get(*block as usize).map_or("hidden text", |l| l);
                let kind = match (repository, finding.inside.is_empty()) {
                    (Some(_), _) => LeakKind::History,
                    (None, true) => LeakKind::Copy,
                    (None, false) => LeakKind::ArchivedCopy,
                };
                (kind, format!("{label} ({matched} of {of} fragments)"))
            }
            FindingKind::Bytecode { set, matched } => {
                let names = labels.secrets.names.get(*set as usize);
                let of = names.map_or(0, |set| set.names.len());
                let label = labels.names.get(*set as usize).map_or("compiled code", |l| l);
                (LeakKind::Bytecode, format!("{label} ({matched} of {of} names)"))
            }
            FindingKind::Module { module } => {
                let name = labels.secrets.modules.get(*module as usize).map_or("", |m| m);
                let kind = match finding.inside.is_empty() {
                    true => LeakKind::ImportableCopy,
                    false => LeakKind::ArchivedCopy,
                };
                (kind, format!("the module {}, which is under test", name.replace('/', ".")))
            }
        };
        let mut place = finding.path.to_escaped();
        for inner in &finding.inside {
            place.push_str(" > ");
            place.push_str(&inner.to_escaped());
        }
        let remove = match (repository, &finding.what) {
            (Some(folder), _) => folder.to_vec(),
            (None, FindingKind::Module { module }) if finding.inside.is_empty() => {
                let module = labels.secrets.modules.get(*module as usize).map_or("", |m| m);
                roots::package_root(path, module).to_vec()
            }
            _ => path.to_vec(),
        };
        Self { kind, place, what, remove: Some(RawPath::new(remove)) }
    }

    /// Whether removing the leak also removes `file`.
    pub fn covers(&self, file: &RawPath) -> bool {
        let place = self.remove.as_ref();
        let rest = place.and_then(|place| file.as_bytes().strip_prefix(place.as_bytes()));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    pub(super) fn new_secret(
        kind: LeakKind,
        location: impl Into<String>,
        description: &str,
    ) -> Self {
        Self { kind, place: location.into(), what: description.to_owned(), remove: None }
    }
}
