//! Screens the latest commits of a clone as if each were an agent's patch, and lists the findings.
//!
//! Usage: `cargo run -p proctor-screening --example commits -- CLONE [COUNT]`. Real commits are
//! honest work, so every finding is a false positive unless a review shows otherwise.

#![expect(clippy::print_stdout, reason = "the program prints its results")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use proctor_patch::{CurrentFile, MODE_FILE};
use proctor_screening::{PatchChanges, ScreeningInput, is_test_path, own_packages, screen};

/// Number of commits to screen by default.
const DEFAULT_COMMITS: usize = 100;

/// Import roots in a repository, as in `configs/tables/grading.toml`.
const ROOTS: [&str; 3] = ["", "src", "lib"];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let clone = arguments.next().ok_or("usage: commits CLONE [COUNT]")?;
    let clone = Path::new(&clone);
    let count = arguments.next().map_or(Ok(DEFAULT_COMMITS), |count| count.parse())?;
    let log = run_git(clone, &["log", "--no-merges", "--format=%H", "--", "*.py"])?;
    let (mut times, mut screened, mut marked) = (Vec::new(), 0, 0);
    for commit in String::from_utf8(log)?.lines() {
        if screened == count {
            break;
        }
        let Some((found, time)) = screen_commit(clone, commit)? else { continue };
        screened += 1;
        marked += usize::from(!found.is_empty());
        times.push(time);
        for line in found {
            println!("{commit:.12} {line}");
        }
    }
    times.sort();
    let longest = times.last().copied().unwrap_or_default();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "{screened} commits screened, {marked} with findings; median {median:.1?}, longest {longest:.1?}"
    );
    Ok(())
}

/// The findings of a commit, and how long screening took.
type ScreenedCommit = (Vec<String>, Duration);

/// Screens a commit. Returns `None` if it changes no Python code besides tests, or has no parent.
fn screen_commit(clone: &Path, commit: &str) -> Result<Option<ScreenedCommit>, Box<dyn Error>> {
    let parent = format!("{commit}^");
    let Ok(names) = run_git(clone, &["diff", "--name-only", "--no-renames", &parent, commit])
    else {
        // The first commit has no parent.
        return Ok(None);
    };
    let names = String::from_utf8_lossy(&names).into_owned();
    if !names.lines().any(|path| path.ends_with(".py") && !is_test_path(path)) {
        return Ok(None);
    }
    let patch =
        run_git(clone, &["diff", "--binary", "--full-index", "--no-renames", &parent, commit])?;
    let mut before = BTreeMap::new();
    for path in names.lines() {
        if let Ok(bytes) = run_git(clone, &["show", &format!("{parent}:{path}")]) {
            before.insert(path.to_owned(), CurrentFile::File { bytes, mode: MODE_FILE });
        }
    }
    let tree = run_git(clone, &["ls-tree", "-r", "--name-only", &parent])?;
    let tree: Vec<String> = String::from_utf8_lossy(&tree).lines().map(ToOwned::to_owned).collect();
    let roots = ROOTS.map(ToOwned::to_owned);
    let mut owned = own_packages(tree.iter(), &roots, &BTreeSet::new());
    owned.extend(own_packages(before.keys(), &roots, &BTreeSet::new()));
    let changes = PatchChanges::new(&patch, &before);
    let input = ScreeningInput {
        changes: &changes,
        gold_patch: None,
        original_files: &before,
        owned_modules: &owned,
        is_judged_by_pytest: true,
        is_screened: &|path: &str| !is_test_path(path),
    };
    let begun = Instant::now();
    let found = screen(&input)?;
    let time = begun.elapsed();
    Ok(Some((found.findings.iter().map(ToString::to_string).collect(), time)))
}

fn run_git(clone: &Path, arguments: &[&str]) -> Result<Vec<u8>, Box<dyn Error>> {
    let done = Command::new("git").arg("-C").arg(clone).args(arguments).output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    Ok(done.stdout)
}
