//! Ids, and names encoded as path components.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Creates an id. Any text is valid.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Returns the text, which is not escaped for a path: see [`path_component`].
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The id of a task, as in its dataset.
    TaskId
);
name!(
    /// SHA-256 (hex) of the canonical JSON of an arm's factors.
    ArmId
);

/// Identifies a trial: one attempt of an arm at a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialId {
    /// The task's id.
    pub task: TaskId,
    /// The arm's id.
    pub arm: ArmId,
    /// Number of the attempt, counted from 1.
    pub attempt: u32,
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arm = self.arm.0.get(..12).unwrap_or(&self.arm.0);
        write!(f, "{}/{arm}/{}", self.task, self.attempt)
    }
}

/// The longest path component, in bytes, that is valid on every file system Proctor writes to.
pub const MAX_COMPONENT_BYTES: usize = 255;

/// Converts any name to one path component of at most [`MAX_COMPONENT_BYTES`] bytes.
///
/// Letters, digits, `.`, `_`, `-`, `+`, `=`, `@` and `,` are kept; every other byte, and a leading
/// dot, becomes `%XX`. A name that would be too long is truncated and ends in 16 hex digits of its
/// SHA-256, so that two long names do not collide.
pub fn path_component(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for (index, byte) in name.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'-' | b'+' | b'=' | b'@' | b',')
            || (byte == b'.' && index > 0);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    if out.is_empty() {
        return "%".to_owned();
    }
    if out.len() > MAX_COMPONENT_BYTES {
        let digest = hex(&Sha256::digest(name.as_bytes()));
        out.truncate(MAX_COMPONENT_BYTES - 17);
        out.push('~');
        out.push_str(&digest[..16]);
    }
    out
}

/// Formats bytes as lowercase hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of the bytes as lowercase hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_components_are_safe_bounded_and_distinct() {
        assert_eq!(path_component("demo__roman-1"), "demo__roman-1");
        assert_eq!(path_component("a/b"), "a%2Fb");
        assert_eq!(path_component(".."), "%2E.");
        assert_eq!(path_component(""), "%");
        let long_a = format!("{}a", "x".repeat(400));
        let long_b = format!("{}b", "x".repeat(400));
        assert_eq!(path_component(&long_a).len(), MAX_COMPONENT_BYTES);
        assert_ne!(path_component(&long_a), path_component(&long_b));
    }
}
