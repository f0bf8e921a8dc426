//! Paths inside a sandbox are bytes, not UTF-8.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A path as bytes. In JSON it is a string, in which `%` and every byte that is neither printable
/// ASCII nor valid UTF-8 are written as `%XX`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RawPath(pub Vec<u8>);

impl RawPath {
    /// Creates a path from raw bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// Creates a path from a task's path, which is relative to the work directory. `./a.py` becomes
    /// `a.py`.
    pub fn from_task_path(path: &str) -> Self {
        Self::from(path.trim_start_matches("./"))
    }

    /// Parses a path from `/proc/self/mountinfo`, where whitespace and backslashes are written as
    /// a backslash and three octal digits.
    pub fn from_mountinfo(text: &[u8]) -> Self {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((&byte, after)) = rest.split_first() {
            let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
            match code.filter(|_| byte == b'\\').and_then(|code| u8::from_str_radix(code, 8).ok()) {
                Some(code) => {
                    out.push(code);
                    rest = &after[3..];
                }
                None => {
                    out.push(byte);
                    rest = after;
                }
            }
        }
        Self(out)
    }

    /// Returns the path of an entry below this directory.
    #[must_use]
    pub fn join(&self, path: &RawPath) -> Self {
        let mut bytes = self.0.clone();
        if !bytes.ends_with(b"/") {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(&path.0);
        Self(bytes)
    }

    /// Returns the raw bytes, as passed to the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path as text if it needs no escaping, which is the common case.
    fn as_unescaped(&self) -> Option<&str> {
        let plain = self.0.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'%');
        if plain { std::str::from_utf8(&self.0).ok() } else { None }
    }

    /// Returns the escaped form.
    pub fn to_escaped(&self) -> String {
        let mut out = String::new();
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c == '%' || c.is_control() {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        out.push_str(&format!("%{byte:02X}"));
                    }
                } else {
                    out.push(c);
                }
            }
            for byte in chunk.invalid() {
                out.push_str(&format!("%{byte:02X}"));
            }
        }
        out
    }

    /// Parses the escaped form. Returns `None` if a `%` is not followed by two hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(bytes.len());
        let mut index = 0;
        while index < bytes.len() {
            if bytes[index] == b'%' {
                let digits = text.get(index + 1..index + 3)?;
                out.push(u8::from_str_radix(digits, 16).ok()?);
                index += 3;
            } else {
                out.push(bytes[index]);
                index += 1;
            }
        }
        Some(Self(out))
    }
}

impl From<&str> for RawPath {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for RawPath {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl fmt::Display for RawPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_escaped())
    }
}

impl Serialize for RawPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_unescaped() {
            Some(plain) => serializer.serialize_str(plain),
            None => serializer.serialize_str(&self.to_escaped()),
        }
    }
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("invalid escape in path {text:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_escape_round_trips_any_bytes() {
        for bytes in [&b"a/b c"[..], b"100%", b"\xff\xfe/\n", "é/漢".as_bytes(), b""] {
            let path = RawPath::new(bytes);
            assert_eq!(RawPath::parse(&path.to_escaped()), Some(path));
        }
        assert_eq!(RawPath::parse("%"), None);
        assert_eq!(RawPath::parse("%é1"), None);
    }
}
