//! Builds and parses URLs, relative to the viewer's root.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use proctor_record::Blobs;

use super::PlannedTrial;

/// Number of hex digits of an arm's id in a URL. Paths in run directories use the same number.
pub const ARM_DIGITS: usize = 12;

/// Maximum length of a file name. A longer name is truncated, and a hash of the full name is added
/// to keep it unique.
const MAX_NAME_LENGTH: usize = 200;

/// Returns the first twelve digits of an arm's id.
pub fn short_arm_id<'a>(planned_trial: &PlannedTrial<'a>) -> &'a str {
    let arm = planned_trial.arm.id.as_str();
    arm.get(..ARM_DIGITS).unwrap_or(arm)
}

/// Whether a URL is served or is the name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlForm {
    ServerPath,
    File,
}

/// The home page's file name, and the file extension of the other pages.
pub const HOME_PAGE: &str = "index.html";
pub const PAGE_SUFFIX: &str = ".html";

/// Returns the URL of a run's report, without the suffix.
pub fn report_url(run: usize) -> String {
    format!("report/{run}")
}

/// Returns the URL of the comparison of a run's arms, without the suffix.
pub fn comparison_url(run: usize) -> String {
    format!("compare/{run}")
}

/// Returns the file with a page of a run's matrix, with the suffix. The first page is the run's
/// page instead.
pub fn matrix_file(run: usize, page: usize) -> String {
    format!("trials/{run}/{page}{PAGE_SUFFIX}")
}

impl UrlForm {
    /// Returns the URL of a run's page, with the suffix. If there is only one run, its page is
    /// the home page instead.
    pub fn run_url(self, run: usize) -> String {
        match self {
            Self::ServerPath => run.to_string(),
            Self::File => format!("{run}{PAGE_SUFFIX}"),
        }
    }

    /// Returns `RUN/TASK/ARM/ATTEMPT`, with the run's number.
    pub fn trial_url(self, run: usize, planned_trial: &PlannedTrial<'_>) -> String {
        let task = self.encode_name(planned_trial.task.task.id.as_str());
        format!("{run}/{task}/{}/{}", short_arm_id(planned_trial), planned_trial.attempt)
    }

    /// Returns the URL of the page that shows a task's trials side by side. The page starts with
    /// the trials of the run with this number.
    pub fn side_by_side_url(self, run: usize, task: &str) -> String {
        format!("beside/{run}/{}", self.encode_name(task))
    }

    fn encode_name(self, text: &str) -> String {
        match self {
            Self::ServerPath => percent_encode(text),
            Self::File => {
                // Keep only characters that are valid in a URL without escaping. A name must not
                // start with a dot, because the file would be hidden or could escape the directory.
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

pub fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// The decoded query string of a URL, in the form in which browsers submit forms.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Self {
        let fields = text.split('&').filter(|field| !field.is_empty());
        let field = |field: &str| {
            let plain = field.replace('+', " ");
            let (name, value) = plain.split_once('=').unwrap_or((&plain, ""));
            (percent_decode(name), percent_decode(value))
        };
        Self(fields.map(field).collect())
    }

    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the first value with this name, or an empty string.
    pub fn first_value(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// Splits a URL into its decoded parts.
pub fn split_url(path: &str) -> Vec<String> {
    path.split('/').map(percent_decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_file_names_are_truncated() {
        let (one, other) = ("<".repeat(300), format!("{}>", "<".repeat(299)));
        let names = [one, other].map(|text| UrlForm::File.side_by_side_url(1, &text));
        assert!(names.iter().all(|name| name.len() < 240) && names[0] != names[1], "{names:?}");
        assert_eq!(UrlForm::File.side_by_side_url(2, ".a/b"), "beside/2/~2ea~2fb");
    }

    #[test]
    fn query_decodes_form_values() {
        let query = Query::parse("q=a+b%26c%2B&trial=1%2Ft&trial=2&empty=&flag");
        assert_eq!(query.first_value("q"), "a b&c+");
        assert_eq!(query.values("trial").collect::<Vec<_>>(), ["1/t", "2"]);
        assert_eq!(
            (query.first_value("empty"), query.first_value("flag"), query.first_value("none")),
            ("", "", "")
        );
        assert_eq!(split_url("1/a%2Fb/c"), ["1", "a/b", "c"]);
    }
}
