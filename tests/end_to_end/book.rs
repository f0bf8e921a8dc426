//! Checks `docs/` as a book: `docs/SUMMARY.md` must list every page once, each page must name its
//! reader, and the page of event kinds must match the code.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use crate::pages::markdown_files;

fn docs_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns the paths of all pages except the summary, relative to `docs/`.
fn book_pages() -> Vec<String> {
    let folder = docs_folder();
    let files = markdown_files(&folder);
    let paths = files.iter().map(|file| file.strip_prefix(&folder).unwrap().to_str().unwrap());
    paths.filter(|path| *path != "SUMMARY.md").map(str::to_owned).collect()
}

#[test]
fn summary_lists_every_page_once() {
    let summary = fs::read_to_string(docs_folder().join("SUMMARY.md")).unwrap();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for link in summary.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
        *named.entry(link).or_default() += 1;
    }
    for page in book_pages() {
        let count = named.remove(page.as_str()).unwrap_or_default();
        assert_eq!(count, 1, "docs/{page} is in docs/SUMMARY.md {count} times");
    }
    assert!(named.is_empty(), "docs/SUMMARY.md names missing pages: {named:?}");
}

/// A reader decides by the first line whether to read a page.
#[test]
fn every_page_names_its_reader_in_the_first_line() {
    for page in book_pages().iter().filter(|page| page.contains('/')) {
        let text = fs::read_to_string(docs_folder().join(page)).unwrap();
        let first = text.lines().nth(2).unwrap_or_default();
        assert!(
            ["This page is for ", "This guide is for "]
                .iter()
                .any(|start| first.starts_with(start)),
            "docs/{page} starts with: {first}"
        );
    }
}

const EVENTS_HEADER: &str = "# Event kinds\n\nThis page is for anyone who reads a trial's recorded events. Each line of `trajectory.jsonl` is an \
                      event: one JSON object with the fields of the envelope, `kind`, and the fields of that kind. [The \
                      record](record.md) describes how Proctor stores events. A test generates this page from the code. To \
                      update it, run `PROCTOR_WRITE=1 cargo test -p proctor --test end_to_end events_page`.\n";

/// The line for `sum`, which comes after the envelope's fields. The code adds `sum` when it writes
/// a line, so no type has this field.
const SUM_FIELD: &str =
    "- `sum`: The first 16 hex digits of the BLAKE3 hash of the line without it.\n";

/// Returns the page of event kinds. Its content comes from the comments and names in the source of
/// `struct Envelope` and `enum Event`; serde uses the same names.
fn events_page() -> String {
    let source =
        |file: &str| fs::read_to_string(docs_folder().join("../runtime/types/src").join(file));
    let (event, egress) = (source("event.rs").unwrap(), source("egress.rs").unwrap());
    let mut out = EVENTS_HEADER.to_owned();
    out += "\n## The envelope\n\n";
    add_fields(&mut out, type_body(&event, "pub struct Envelope {"));
    out += SUM_FIELD;
    let mut comment = String::new();
    let mut of_kind = String::new();
    for line in type_body(&event, "pub enum Event {").lines().map(str::trim_end) {
        let text = line.trim_start();
        if line.len() - text.len() > 4 {
            of_kind += line;
            of_kind.push('\n');
        } else if let Some(more) = text.strip_prefix("///") {
            comment += more;
        } else if text.starts_with('}') {
            add_fields(&mut out, &std::mem::take(&mut of_kind));
        } else if !text.starts_with('#') && !text.is_empty() {
            let kind = text.split(['{', '(', ',']).next().unwrap().trim();
            let comment = std::mem::take(&mut comment);
            if kind != "Unknown" {
                write!(out, "\n## `{}`\n\n{}\n\n", to_snake_case(kind), comment.trim()).unwrap();
            }
            if text.contains("UrlRequest>)") {
                add_fields(&mut out, type_body(&egress, "pub struct UrlRequest {"));
            }
        }
    }
    // Remove links to items in the source, which would be broken on this page.
    out.replace("[`", "`").replace("`]", "`")
}

fn type_body<'a>(source: &'a str, start: &str) -> &'a str {
    source.split_once(start).unwrap().1.split_once("\n}\n").unwrap().0
}

/// Adds one line per field.
fn add_fields(out: &mut String, body: &str) {
    let (mut comment, mut name) = (String::new(), None);
    for text in body.lines().map(str::trim) {
        if let Some(more) = text.strip_prefix("///") {
            comment += more;
        } else if let Some(rest) = text.strip_prefix("#[serde(rename = \"") {
            name = rest.split('"').next();
        } else if let Some((field, of)) = text.trim_start_matches("pub ").split_once(": ")
            && !text.starts_with('#')
        {
            let (field, comment) = (name.take().unwrap_or(field), std::mem::take(&mut comment));
            if field != "event" {
                let mut about = comment.trim().to_owned();
                if of.starts_with("Option<") {
                    if about.contains("Absent ") {
                        about = about.replacen("Absent ", "Absent or null ", 1);
                    } else {
                        about += " May be absent or null.";
                    }
                }
                writeln!(out, "- `{field}`: {about}").unwrap();
            }
        }
    }
}

fn to_snake_case(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

#[test]
fn events_page_is_current() {
    let (file, page) = (docs_folder().join("reference/events.md"), events_page());
    if std::env::var_os("PROCTOR_WRITE").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let kinds = page.matches("\n## `").count();
    assert!(kinds >= 22, "found only {kinds} kinds: the source is not parsed correctly");
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference/events.md does not match the code; its first lines say how to regenerate it"
    );
}
