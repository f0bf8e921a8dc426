//! Loads 2,294 rows in SWE-bench format and 200 rows in FeatureBench format, all of realistic size.
//! Compares this with a Python program that only parses the same JSON. Prints seconds, peak memory
//! and ratios.
//!
//! Each measurement runs in a separate process, because peak memory is counted per process.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "benchmarks print results and panic on errors"
)]

#[path = "../../runtime/datasets/tests/all/common/generate.rs"]
mod generate;

use std::{fs, path::Path, process::Command, time::Instant};

const PYTHON: &str = "import json,sys,time\n\
    begun = time.monotonic()\n\
    rows = [json.loads(line) for line in open(sys.argv[1])]\n\
    for row in rows:\n\
    \x20   for key in ('FAIL_TO_PASS', 'PASS_TO_PASS', 'repo_settings'):\n\
    \x20       if isinstance(row.get(key), str): row[key] = json.loads(row[key])\n\
    seconds = time.monotonic() - begun\n\
    # Not ru_maxrss: it includes this benchmark's memory at the time of the fork.\n\
    peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')][0].split()[1]\n\
    print(len(rows), seconds, peak)";

/// Prints the number of tasks, the load time in seconds, and the peak memory in KiB.
fn print_load_cost(file: &Path) {
    let begun = Instant::now();
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    let loaded = proctor_datasets::load(&[name], file.parent().unwrap()).unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("{} {seconds} {}", loaded.tasks.len(), peak.trim().trim_end_matches(" kB"));
}

fn measure_load(command: &mut Command) -> (usize, f64, f64) {
    // Use the fastest of three runs, because other programs may slow down a run.
    let runs = (0..3).map(|_| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        let mut words = said.split_whitespace();
        let mut next = || words.next().unwrap().parse::<f64>().unwrap();
        (next() as usize, next(), next() / 1024.0)
    });
    runs.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--child") {
        return print_load_cost(Path::new(&arguments[at + 1]));
    }
    let dir = tempfile::tempdir().unwrap();
    let swe_bench: Vec<String> = (0..generate::SWE_BENCH_ROW_COUNT)
        .map(|at| generate::generate_swe_bench_row(at).to_string())
        .collect();
    let featurebench: Vec<String> = (0..generate::FEATUREBENCH_ROW_COUNT)
        .map(|at| generate::generate_featurebench_row(at).to_string())
        .collect();
    for (name, rows) in [("swe-bench", swe_bench), ("featurebench", featurebench)] {
        let file = dir.path().join(format!("{name}.jsonl"));
        fs::write(&file, rows.join("\n")).unwrap();
        let size = fs::metadata(&file).unwrap().len() as f64 / f64::from(1 << 20);
        let this = std::env::current_exe().unwrap();
        let ours = measure_load(Command::new(this).arg("--child").arg(&file));
        let python = measure_load(Command::new("python3").args(["-c", PYTHON]).arg(&file));
        assert_eq!((ours.0, python.0), (rows.len(), rows.len()));
        println!(
            "{name}: {} rows, {size:.0} MiB: {:.2} s and {:.0} MiB; Python's json {:.2} s and {:.0} MiB; \
             ratio {:.2} in time, {:.2} in memory",
            ours.0,
            ours.1,
            ours.2,
            python.1,
            python.2,
            ours.1 / python.1,
            ours.2 / python.2
        );
    }
}
