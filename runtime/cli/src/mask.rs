//! Masks secrets in files that users share: exports, reports and pages. The run's record does not
//! change.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
};

use proctor_types::{ShippedTable, count_with_noun, one_line};
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;
use serde_json::Value;

use crate::{args::MaskArgs, error::UserError};

static SECRETS_TABLE: ShippedTable<SecretsTable> =
    ShippedTable::new("tables/secrets.toml", include_str!("../../../configs/tables/secrets.toml"));

/// Matches the text before a secret: the start of the text, a non-word character, or an escape
/// sequence that ends in a letter or digit.
const SECRET_DELIMITER_PATTERN: &str =
    r"(?:^|[^A-Za-z0-9_]|\\[nrtbf0]|\\u[0-9A-Fa-f]{4}|%[0-9A-Fa-f]{2}|\[[0-9;]{0,12}m)";
/// The label of a listed word.
const LISTED_WORD_LABEL: &str = "listed word";
/// Minimum length of a listed word. Shorter words would match inside others.
const MIN_WORD_LENGTH: usize = 4;
/// Size limit of a compiled expression in bytes. It is large because a word list may be long.
const REGEX_SIZE_LIMIT: usize = 64 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretsTable {
    kind: Vec<SecretPattern>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretPattern {
    name: String,
    pattern: String,
    #[serde(default)]
    digits: usize,
    #[serde(default)]
    letters: usize,
}

#[derive(Debug)]
struct SecretKind {
    name: String,
    regex: Regex,
    digits: usize,
    letters: usize,
}

/// The secrets to mask, and counts of those that were masked.
#[derive(Debug)]
pub struct SecretMask {
    kinds: Vec<SecretKind>,
    /// One expression per kind of secret. Strings that match none of them are skipped.
    any_secret: RegexSet,
    /// Counts by file and kind.
    masked_counts: Mutex<BTreeMap<String, BTreeMap<String, usize>>>,
    is_on: bool,
}

impl SecretMask {
    /// Builds the mask that the arguments request. By default, nothing is masked.
    ///
    /// # Errors
    /// Fails if the word list cannot be read or is invalid.
    pub fn from_args(args: &MaskArgs) -> Result<Self, UserError> {
        let mut rows: Vec<(String, String, usize, usize)> = Vec::new();
        // Listed words come first, because they are the user's own.
        if let Some(file) = &args.mask_words {
            rows.push((LISTED_WORD_LABEL.to_owned(), word_list_pattern(file)?, 0, 0));
        }
        if args.is_requested() {
            for SecretPattern { name, pattern, digits, letters } in
                &SECRETS_TABLE.get().map_err(UserError::new)?.kind
            {
                let pattern = format!("{SECRET_DELIMITER_PATTERN}(?P<all>{pattern})");
                rows.push((name.clone(), pattern, *digits, *letters));
            }
        }
        let wrong = |error: regex::Error| {
            UserError::new(one_line(&format!("cannot use the patterns of --mask: {error}")))
                .hint("use fewer words")
        };
        let patterns = rows.iter().map(|(_, pattern, ..)| pattern);
        let any =
            RegexSetBuilder::new(patterns).unicode(false).size_limit(REGEX_SIZE_LIMIT).build();
        let any = any.map_err(wrong)?;
        let mut kinds = Vec::new();
        for (name, pattern, digits, letters) in rows {
            let regex =
                RegexBuilder::new(&pattern).unicode(false).size_limit(REGEX_SIZE_LIMIT).build();
            kinds.push(SecretKind { name, regex: regex.map_err(wrong)?, digits, letters });
        }
        Ok(Self {
            kinds,
            any_secret: any,
            masked_counts: Mutex::default(),
            is_on: args.is_requested(),
        })
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Returns a file's text with its secrets masked. `file` names the file in the list of masked
    /// values.
    pub fn mask_bytes<'a>(&self, file: &Path, text: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Cow::Borrowed(text);
        for index in self.any_secret.matches(text) {
            let Some(kind) = self.kinds.get(index) else { continue };
            let Some((without, count)) = kind.mask(&out) else { continue };
            let mut masked = self.masked_counts.lock().unwrap_or_else(PoisonError::into_inner);
            let of_file = masked.entry(file.display().to_string()).or_default();
            *of_file.entry(kind.name.clone()).or_default() += count;
            out = Cow::Owned(without);
        }
        out
    }

    /// Like [`SecretMask::mask_bytes`], for text.
    pub fn mask_text(&self, file: &Path, text: &str) -> String {
        String::from_utf8_lossy(&self.mask_bytes(file, text.as_bytes())).into_owned()
    }

    /// Returns the numbers of masked secrets as a JSON object: for each file, the kinds of secrets
    /// and their counts.
    pub fn masked_counts(&self) -> Value {
        let masked = self.masked_counts.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_value(&*masked).unwrap_or_default()
    }

    /// Lists the masked secrets on standard error, by file and kind.
    pub fn print_summary(&self) {
        if !self.is_on {
            return;
        }
        let masked = self.masked_counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count: usize = masked.values().flat_map(BTreeMap::values).sum();
        match count {
            0 => tell!("nothing masked: no text looks like a secret"),
            _ => tell!(
                "masked {} in {}",
                count_with_noun(count, "secret"),
                count_with_noun(masked.len(), "file")
            ),
        }
        for (file, kinds) in masked.iter() {
            let kinds: Vec<_> =
                kinds.iter().map(|(name, count)| format!("{name} ({count})")).collect();
            tell!("  {file}: {}", kinds.join(", "));
        }
    }
}

impl SecretKind {
    /// Masks the secrets of this kind. Returns the masked text and the number of secrets, or `None`
    /// if the text has no such secret.
    fn mask(&self, text: &[u8]) -> Option<(Vec<u8>, usize)> {
        let (mut out, mut kept, mut count) = (Vec::new(), 0, 0);
        for found in self.regex.captures_iter(text) {
            let secret = found.name("secret").or_else(|| found.name("all"));
            let Some(secret) = secret.or_else(|| found.get(0)) else { continue };
            if !self.is_secret(secret.as_bytes()) {
                continue;
            }
            out.extend_from_slice(&text[kept..secret.start()]);
            out.extend_from_slice(&self.replacement(secret.as_bytes()));
            kept = secret.end();
            count += 1;
        }
        out.extend_from_slice(&text[kept..]);
        (count > 0).then_some((out, count))
    }

    fn is_secret(&self, text: &[u8]) -> bool {
        let count = |is: fn(&u8) -> bool| text.iter().filter(|byte| is(byte)).count();
        count(u8::is_ascii_digit) >= self.digits && count(u8::is_ascii_alphabetic) >= self.letters
    }

    /// Returns the replacement for a secret. Keeps line breaks, the diff markers after them, and
    /// HTML elements, so that the document stays valid.
    fn replacement(&self, secret: &[u8]) -> Vec<u8> {
        let mut out = format!("[masked: {}]", self.name).into_bytes();
        let mut rest = secret.iter().copied().peekable();
        while let Some(byte) = rest.next() {
            match byte {
                b'<' => {
                    out.push(byte);
                    for byte in rest.by_ref() {
                        out.push(byte);
                        if byte == b'>' {
                            break;
                        }
                    }
                }
                b'\n' => out.push(byte),
                _ => {}
            }
            let is_start = match byte {
                b'\n' => true,
                b'<' => !out.ends_with(b"/span>"),
                _ => false,
            };
            if is_start && let Some(sign) = rest.next_if(|next| matches!(next, b'+' | b'-' | b' '))
            {
                out.push(sign);
            }
        }
        out
    }
}

/// Returns an expression that matches the words listed in a file. It matches each word as written,
/// and as escaped in JSON and HTML.
fn word_list_pattern(file: &Path) -> Result<String, UserError> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        UserError::new(format!("cannot read {shown}: {error}"))
            .hint("pass a text file with one word per line")
    })?;
    let mut spelled = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let word = line.trim();
        if word.is_empty() {
            continue;
        }
        if word.chars().count() < MIN_WORD_LENGTH {
            let what =
                format!("{shown}:{}: the word has fewer than {MIN_WORD_LENGTH} letters", index + 1);
            return Err(UserError::new(what).hint("use a longer part of the text to mask"));
        }
        spelled.extend(escaped_spellings(word));
    }
    if spelled.is_empty() {
        return Err(
            UserError::new(format!("{shown}: no words")).hint("write one word to mask per line")
        );
    }
    // The regex engine uses the first alternative that matches, so put a word before its own
    // prefix.
    let mut spelled: Vec<_> = spelled.into_iter().collect();
    spelled.sort_by_key(|word| std::cmp::Reverse(word.len()));
    let words: Vec<_> = spelled.iter().map(|word| bytes_pattern(word)).collect();
    Ok(words.join("|"))
}

/// Returns an expression that matches exactly the bytes of a word.
fn bytes_pattern(word: &str) -> String {
    let byte = |byte: u8| match byte {
        b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
        b => format!(r"\x{b:02x}"),
    };
    word.bytes().map(byte).collect()
}

fn escaped_spellings(word: &str) -> Vec<String> {
    let json = |text: &str| {
        let quoted = Value::String(text.to_owned()).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    };
    let ascii = |text: &str| -> String {
        let unit = |c: char| -> String {
            let mut units = [0; 2];
            match c.is_ascii() {
                true => c.to_string(),
                false => {
                    c.encode_utf16(&mut units).iter().map(|one| format!("\\u{one:04x}")).collect()
                }
            }
        };
        text.chars().map(unit).collect()
    };
    let page = |text: &str| -> String {
        let escaped = |c: char| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            '\'' => "&#x27;".to_owned(),
            '/' => "&#x2f;".to_owned(),
            c => c.to_string(),
        };
        text.chars().map(escaped).collect()
    };
    let (once, twice) = (json(word), json(&json(word)));
    let plain = [word.to_owned(), once, twice, ascii(&json(word)), json(&ascii(&json(word)))];
    plain.iter().cloned().chain(plain.iter().map(|text| page(text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A made-up key. It is split in two, so that this file contains no text that looks like a key.
    fn sample_key() -> String {
        ["sk-proj-", "a1B2c3D4e5F6g7H8i9J0"].concat()
    }

    fn mask_sample(text: &str) -> String {
        let mask = SecretMask::from_args(&MaskArgs { mask: true, mask_words: None }).unwrap();
        mask.mask_text(Path::new("f"), text)
    }

    #[test]
    fn mask_hides_keys_after_any_delimiter() {
        let key = sample_key();
        for before in
            ["", " ", "\"", "=", r"\n", r"\\n", r"\u001b", "%3D", "\u{1b}[32m", "é", "&quot;", ">"]
        {
            let out = mask_sample(&format!("{before}{key}"));
            assert!(out.contains("[masked: API key]") && !out.contains(&key), "{before:?}: {out}");
        }
        let parts = [
            ("GitHub or GitLab token", ["ghp_", "0123456789abcdefghijABCDEFGHIJ012345"].concat()),
            ("AWS key id", ["AKIA", "ABCDEFGHIJKLMNOP"].concat()),
            ("Slack token", ["xoxb-", "12345678901-abcdefghij"].concat()),
            ("Stripe key", ["sk_live_", "abcdefghij0123456789"].concat()),
            (
                "JSON web token",
                ["eyJ", "hbGciOiJIUzI1NiJ9", ".eyJ", "zdWIiOiIxMjM0In0", ".c2ln"].concat(),
            ),
        ];
        for (kind, key) in parts {
            assert_eq!(mask_sample(&format!("x {key} y")), format!("x [masked: {kind}] y"));
        }
    }

    #[test]
    fn mask_hides_values_of_secret_names_and_keeps_the_document_valid() {
        let secret = ["hunter", "2correct3horse4"].concat();
        for text in [
            format!("MY_API_KEY={secret}"),
            format!("export DB_PASSWORD='{secret}'"),
            format!("{{\"password\": \"{secret}\"}}"),
            format!("{{\"arguments\": \"{{\\\"access_token\\\": \\\"{secret}\\\"}}\"}}"),
            format!("<b>secret_key: &quot;{secret}&quot;</b>"),
            format!("Authorization: Bearer {secret}"),
            format!("git clone https://me:{secret}@host.test/a.git"),
            format!(r#"{{"url": "https:\/\/me:{secret}@host.test"}}"#),
            format!("<i>https:&#x2f;&#x2f;me:{secret}@host.test</i>"),
        ] {
            let out = mask_sample(&text);
            assert!(!out.contains(&secret) && out.contains("[masked: "), "{out}");
            let rest = text.split(&secret).collect::<Vec<_>>();
            assert!(out.starts_with(rest[0]) && out.ends_with(rest[1]), "{out}");
        }
    }

    #[test]
    fn mask_keeps_plain_words_and_numbers() {
        for text in [
            "a task-description-of-something-that-is-long",
            "token = tokenizer.encode_everything_at_once",
            "{\"max_tokens\": 12345678901234567890, \"token\": 12345678901234567890}",
            "password = get_password_from_environment",
            "sha256 0a1b2c3d4e5f60718293a4b5c6d7e8f9",
            "https://host.test:8080/path",
            "the basic requirements1 are these",
        ] {
            assert_eq!(mask_sample(text), text);
        }
        let none = SecretMask::from_args(&MaskArgs::default()).unwrap();
        assert_eq!(none.mask_text(Path::new("f"), &sample_key()), sample_key());
        assert!(!none.is_on());
    }

    #[test]
    fn mask_hides_whole_private_keys_and_keeps_diff_lines() {
        let head = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
        let end = ["-----END RSA ", "PRIVATE KEY-----"].concat();
        let body = "MIIEpAIBAAKCAQEA7bq9+abc/def";
        let diff = format!("+a\n+{head}\n+{body}\n+{body}==\n+{end}\n+b\n");
        let out = mask_sample(&diff);
        assert!(!out.contains("MIIE"), "{out}");
        assert_eq!(out.lines().count(), diff.lines().count(), "{out}");
        assert!(out.lines().all(|line| line.starts_with('+')), "{out}");
        assert!(out.starts_with("+a\n+[masked: private key]\n") && out.ends_with("\n+b\n"));
        let json = serde_json::json!({ "content": format!("x\n{head}\n{body}\n{end}\ny") });
        let out: Value = serde_json::from_str(&mask_sample(&json.to_string())).unwrap();
        assert_eq!(out["content"], "x\n[masked: private key]\ny");
        // A key without an end marker is masked too.
        assert!(!mask_sample(&format!("{head}\n{body}\n{body}")).contains("MIIE"));
        let page = format!(
            "<span class=\"add\">+{head}\n</span><span class=\"add\">+{body}\n</span><span class=\"add\">+{end}\n</span>"
        );
        let out = mask_sample(&page);
        assert!(!out.contains("MIIE"), "{out}");
        assert_eq!(out.matches("<span").count(), 3, "{out}");
        assert_eq!(out.matches("</span>").count(), 3, "{out}");
    }

    #[test]
    fn mask_hides_listed_words_in_json_and_html_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("words");
        let word = "Größe \"A/B\" & <C>";
        fs::write(&file, format!("{word}\r\n\nplain\nplainer\n")).unwrap();
        let mask = SecretMask::from_args(&MaskArgs { mask: false, mask_words: Some(file.clone()) })
            .unwrap();
        let of = |text: &str| mask.mask_text(Path::new("f"), text);
        let json = Value::String(word.to_owned()).to_string();
        for text in [
            word.to_owned(),
            json.clone(),
            Value::String(json).to_string(),
            "Gr\\u00f6\\u00dfe \\\"A/B\\\" & <C>".to_owned(),
            "Größe &quot;A&#x2f;B&quot; &amp; &lt;C&gt;".to_owned(),
        ] {
            let out = of(&text);
            assert!(out.contains("[masked: listed word]") && !out.contains("A"), "{text}: {out}");
        }
        assert_eq!(of("plainer"), "[masked: listed word]");
        assert_eq!(of("explain it"), "ex[masked: listed word] it");
        // Object keys are masked too.
        assert!(of(&sample_key()).contains("[masked: API key]"));
        let counts = mask.masked_counts();
        assert_eq!(
            (counts["f"]["listed word"].as_u64(), counts["f"]["API key"].as_u64()),
            (Some(7), Some(1))
        );
    }

    #[test]
    fn from_args_rejects_empty_lists_and_short_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("words");
        let of = |text: &str| {
            fs::write(&file, text).unwrap();
            SecretMask::from_args(&MaskArgs { mask: false, mask_words: Some(file.clone()) })
                .unwrap_err()
        };
        assert!(
            of("good-word\nab\n").message.contains("words:2: the word has fewer than 4 letters")
        );
        assert!(of("\n \n").message.contains("no words"));
        let missing = Some(folder.path().join("missing"));
        let error =
            SecretMask::from_args(&MaskArgs { mask: false, mask_words: missing }).unwrap_err();
        assert!(error.message.contains("cannot read") && error.hint.is_some());
    }
}
