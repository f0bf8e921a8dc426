//! Builds and parses the addresses of trials below a viewer's root.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use proctor_record::Blobs;

use super::Found;

/// Number of hex digits of an arm's id in an address, as on disk.
pub const ARM_DIGITS: usize = 12;

/// Maximum length of a file name. A longer name is cut and made unique with a hash of the whole name.
const MAX_NAME_LENGTH: usize = 200;

/// Returns the first twelve digits of an arm's id.
pub fn arm_of<'a>(found: &Found<'a>) -> &'a str {
    let arm = found.arm.id.as_str();
    arm.get(..ARM_DIGITS).unwrap_or(arm)
}

/// The form of an address: for a server, or as a file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Served,
    File,
}

impl Form {
    /// Returns `RUN/TASK/ARM/ATTEMPT`, with the run's number.
    pub fn trial(self, run: usize, found: &Found<'_>) -> String {
        let task = self.name(found.task.task.id.as_str());
        format!("{run}/{task}/{}/{}", arm_of(found), found.attempt)
    }

    /// Returns the address of a task's trials side by side.
    pub fn beside(self, task: &str) -> String {
        format!("beside/{}", self.name(task))
    }

    fn name(self, text: &str) -> String {
        match self {
            Self::Served => encoded(text),
            Self::File => {
                // A name must not start with a dot, because it would be hidden or escape the
                // folder. All characters are valid in a URL without escaping.
                let plain = |at: usize, byte: u8| {
                    byte.is_ascii_alphanumeric()
                        || b"_-".contains(&byte)
                        || (byte == b'.' && at > 0)
                };
                let bytes = text.bytes().enumerate();
                let mut name: String = bytes
                    .map(|(at, byte)| match plain(at, byte) {
                        true => char::from(byte).to_string(),
                        false => format!("~{byte:02x}"),
                    })
                    .collect();
                if name.len() > MAX_NAME_LENGTH {
                    name.truncate(MAX_NAME_LENGTH);
                    name += &format!("~{}", &Blobs::hash(text.as_bytes())[..16]);
                }
                name
            }
        }
    }
}

pub fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The decoded query string of an address, as sent by a form.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn of(text: &str) -> Self {
        let fields = text.split('&').filter(|field| !field.is_empty());
        let field = |field: &str| {
            let plain = field.replace('+', " ");
            let (name, value) = plain.split_once('=').unwrap_or((&plain, ""));
            (decoded(name), decoded(value))
        };
        Self(fields.map(field).collect())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a name, or an empty string.
    pub fn one(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Splits an address into its decoded parts.
pub fn parts(path: &str) -> Vec<String> {
    path.split('/').map(decoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_limited_in_length() {
        let (one, other) = ("<".repeat(300), format!("{}>", "<".repeat(299)));
        let names = [one, other].map(|text| Form::File.beside(&text));
        assert!(names.iter().all(|name| name.len() < 240) && names[0] != names[1], "{names:?}");
        assert_eq!(Form::File.beside(".a/b"), "beside/~2ea~2fb");
    }

    #[test]
    fn query_decodes_form_values() {
        let query = Query::of("q=a+b%26c%2B&trial=1%2Ft&trial=2&empty=&flag");
        assert_eq!(query.one("q"), "a b&c+");
        assert_eq!(query.all("trial").collect::<Vec<_>>(), ["1/t", "2"]);
        assert_eq!((query.one("empty"), query.one("flag"), query.one("none")), ("", "", ""));
        assert_eq!(parts("1/a%2Fb/c"), ["1", "a/b", "c"]);
    }
}
