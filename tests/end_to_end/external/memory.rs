//! Searches the processes of agents for a key: their memory, environment variables, and the files
//! in `HOME` and the work directory.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
    thread::sleep,
    time::Duration,
};

/// An environment variable of every external agent, which identifies the agent's processes.
const AGENT_HOME: &[u8] = b"HOME=/tmp/agent-home";
const PAGE_BYTES: u64 = 4096;

/// The result of searching the processes of one agent.
#[derive(Debug, Default)]
pub struct SearchResult {
    /// Number of processes in whose memory their own `HOME` was found, which shows that the search
    /// works.
    pub searched_processes: usize,
    /// Places where the key was found.
    pub key_places: Vec<String>,
}

/// Searches the processes of all agents on the machine that run a bundle's program, until `is_over`
/// returns `true`. Returns the results by agent name.
pub fn watch_agents(key: &str, is_over: &dyn Fn() -> bool) -> BTreeMap<String, SearchResult> {
    let mut seen: BTreeMap<String, SearchResult> = BTreeMap::new();
    let mut looked: BTreeMap<(u32, u64), usize> = BTreeMap::new();
    while !is_over() {
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let folder = entry.path();
            let Ok(variables) = fs::read(folder.join("environ")) else { continue };
            let Some(agent) = agent_scaffold(&folder, &variables) else { continue };
            // Search each process early, and again whenever its memory has grown.
            let pages = resident_pages(&folder);
            let times = looked.entry((pid, pages / 8192)).or_default();
            *times += 1;
            if *times > 2 {
                continue;
            }
            let looks = seen.entry(agent).or_default();
            search_process(&folder, key.as_bytes(), looks);
        }
        sleep(Duration::from_millis(300));
    }
    seen
}

/// Returns the scaffold that a process belongs to, if there is one.
fn agent_scaffold(folder: &Path, variables: &[u8]) -> Option<String> {
    if !variables.split(|byte| *byte == 0).any(|one| one == AGENT_HOME) {
        return None;
    }
    let line = fs::read(folder.join("cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line).replace('\0', " ");
    let programs = [
        ("/agent/bin/claude", "claude-code"),
        ("/agent/bin/codex", "codex"),
        ("/agent/bin/gemini", "gemini-cli"),
        ("/agent/bin/qwen", "qwen-code"),
        ("/agent/bin/opencode", "opencode"),
        ("/agent/bin/mini", "mini-swe-agent"),
        ("/agent/bin/openhands", "openhands"),
        ("/agent/bin/cn", "continue"),
    ];
    programs.iter().find(|(program, _)| line.contains(program)).map(|(_, name)| (*name).to_owned())
}

fn resident_pages(folder: &Path) -> u64 {
    let text = fs::read_to_string(folder.join("statm")).unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

fn search_process(folder: &Path, key: &[u8], search_result: &mut SearchResult) {
    let holds = |bytes: &[u8], what: &[u8]| memchr::memmem::find(bytes, what).is_some();
    let mut control = false;
    for_each_page(folder, &mut |place, bytes| {
        control |= holds(bytes, AGENT_HOME);
        if holds(bytes, key) {
            search_result.key_places.push(format!("{}: memory at {place}", folder.display()));
        }
    });
    search_result.searched_processes += usize::from(control);
    for below in ["root/tmp", "root/testbed", "root/var/tmp"] {
        for_each_file(&folder.join(below), &mut |path, bytes| {
            if holds(bytes, key) {
                search_result.key_places.push(path.display().to_string());
            }
        });
    }
}

/// Reads every private page of a process. Skips shared file mappings, because the files themselves
/// are searched.
fn for_each_page(folder: &Path, visit: &mut dyn FnMut(&str, &[u8])) {
    let (Ok(maps), Ok(mem), Ok(mut pages)) = (
        fs::read_to_string(folder.join("maps")),
        File::open(folder.join("mem")),
        File::open(folder.join("pagemap")),
    ) else {
        return;
    };
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        else {
            continue;
        };
        if !rights.starts_with("rw") {
            continue;
        }
        // Programs never use most of the address space that they reserve, so read only pages that
        // the page map lists as present.
        let mut bits = vec![0; ((end - start) / PAGE_BYTES * 8) as usize];
        if pages.seek(SeekFrom::Start(start / PAGE_BYTES * 8)).is_err()
            || pages.read_exact(&mut bits).is_err()
        {
            continue;
        }
        let there: Vec<bool> = bits.chunks_exact(8).map(|bits| bits[7] & 0xc0 != 0).collect();
        let mut at = 0;
        while at < there.len() {
            let run = there[at..].iter().take_while(|there| **there).count();
            if run > 0 {
                let mut bytes = vec![0; run * PAGE_BYTES as usize];
                if mem.read_exact_at(&mut bytes, start + at as u64 * PAGE_BYTES).is_ok() {
                    visit(range, &bytes);
                }
            }
            at += run.max(1);
        }
    }
}

fn for_each_file(folder: &Path, visit: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        match kind {
            Ok(kind) if kind.is_dir() => for_each_file(&path, visit),
            Ok(kind) if kind.is_file() => {
                if let Ok(bytes) = fs::read(&path) {
                    visit(&path, &bytes);
                }
            }
            _ => {}
        }
    }
}
