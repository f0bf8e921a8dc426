//! A finding, described precisely enough to fix it without revealing what is hidden.

use std::fmt;

use proctor_sandbox_api::wire::{Finding, Found, RawPath, whole};
use serde::{Deserialize, Serialize};

use super::secrets::Labelled;

/// The place of something that must not be there. It never holds the content that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    pub kind: LeakKind,
    /// The file in the sandbox, or the variable; ` > ` leads into archives.
    pub place: String,
    /// What it is a copy of.
    pub what: String,
    /// The path to remove, if it can be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<RawPath>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakKind {
    /// Text in a file.
    Copy,
    /// Anything in an archive or a compressed file.
    ArchivedCopy,
    /// In a repository's objects or logs.
    History,
    Bytecode,
    /// The package under test at a place that an interpreter imports from.
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
    pub(super) fn of(finding: &Finding, labels: &Labelled) -> Self {
        let path = finding.path.as_bytes();
        let repository = whole::repository(path);
        let (kind, what) = match &finding.what {
            Found::Text { block, matched } => {
                let need = labels.secrets.blocks.get(*block as usize);
                let of = need.map_or(0, |block| block.windows.len());
                let label = labels.blocks.get(*block as usize).map_or("hidden text", |l| l);
                let kind = match (repository, finding.inside.is_empty()) {
                    (Some(_), _) => LeakKind::History,
                    (None, true) => LeakKind::Copy,
                    (None, false) => LeakKind::ArchivedCopy,
                };
                (kind, format!("{label} ({matched} of {of} pieces)"))
            }
            Found::Bytecode { set, matched } => {
                let names = labels.secrets.names.get(*set as usize);
                let of = names.map_or(0, |set| set.names.len());
                let label = labels.names.get(*set as usize).map_or("compiled code", |l| l);
                (LeakKind::Bytecode, format!("{label} ({matched} of {of} names)"))
            }
            Found::Module { module } => {
                let name = labels.secrets.modules.get(*module as usize).map_or("", |m| m);
                let kind = match finding.inside.is_empty() {
                    true => LeakKind::ImportableCopy,
                    false => LeakKind::ArchivedCopy,
                };
                (kind, format!("the module {}, which is under test", name.replace('/', ".")))
            }
        };
        let mut place = finding.path.escaped();
        for inner in &finding.inside {
            place.push_str(" > ");
            place.push_str(&inner.escaped());
        }
        let remove = match (repository, &finding.what) {
            (Some(folder), _) => folder.to_vec(),
            (None, Found::Module { module }) if finding.inside.is_empty() => {
                let module = labels.secrets.modules.get(*module as usize).map_or("", |m| m);
                whole::package(path, module).to_vec()
            }
            _ => path.to_vec(),
        };
        Self { kind, place, what, remove: Some(RawPath::new(remove)) }
    }

    /// Whether removing the leak also removes a file.
    pub fn holds(&self, file: &RawPath) -> bool {
        let place = self.remove.as_ref();
        let rest = place.and_then(|place| file.as_bytes().strip_prefix(place.as_bytes()));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }

    pub(super) fn secret(kind: LeakKind, place: impl Into<String>, what: &str) -> Self {
        Self { kind, place: place.into(), what: what.to_owned(), remove: None }
    }
}
