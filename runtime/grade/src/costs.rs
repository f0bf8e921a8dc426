//! Reads a test run's costs from its raw results. Only certificates contain these costs.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Test durations, and the peak memory of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Costs {
    /// Seconds by test id: setup, call and teardown together.
    pub seconds: BTreeMap<String, f64>,
    /// Peak memory in KiB of the test process or its largest child.
    pub peak_kb: Option<u64>,
}

#[derive(Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
enum CostRecord {
    Test {
        id: String,
        #[serde(default)]
        seconds: f64,
    },
    End {
        #[serde(default)]
        peak_kb: Option<u64>,
    },
    #[serde(other)]
    Other,
}

impl Costs {
    /// Reads a graded patch's `results.jsonl`. Skips lines that the recorder did not write. Records
    /// are not authenticated, because the key is discarded after grading.
    pub fn read(results: &[u8]) -> Self {
        let mut costs = Self::default();
        for line in results.split(|byte| *byte == b'\n') {
            let Some(at) = line.iter().position(|byte| *byte == b' ') else { continue };
            match serde_json::from_slice(&line[at + 1..]) {
                Ok(CostRecord::Test { id, seconds }) => {
                    *costs.seconds.entry(id).or_default() += seconds.max(0.0);
                }
                Ok(CostRecord::End { peak_kb }) => costs.peak_kb = peak_kb,
                Ok(CostRecord::Other) | Err(_) => {}
            }
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_sums_phases_and_skips_foreign_lines() {
        let raw = concat!(
            "m {\"t\":\"begin\",\"collected\":[]}\n",
            "m {\"t\":\"test\",\"id\":\"a\",\"when\":\"setup\",\"seconds\":0.5}\n",
            "m {\"t\":\"test\",\"id\":\"a\",\"when\":\"call\",\"seconds\":0.25}\n",
            "nonsense\nm {\"t\":\"test\"\n",
            "m {\"t\":\"end\",\"code\":0,\"peak_kb\":2048}\n",
        );
        let costs = Costs::read(raw.as_bytes());
        assert_eq!(costs.seconds, BTreeMap::from([("a".to_owned(), 0.75)]));
        assert_eq!(costs.peak_kb, Some(2048));
    }
}
