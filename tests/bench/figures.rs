//! Computes and prints medians and ratios.

use std::{collections::BTreeMap, time::Duration};

/// Measured durations, by name.
#[derive(Default)]
pub struct Figures {
    samples: BTreeMap<String, Vec<Duration>>,
    ratios: Vec<(String, String, String, f64)>,
}

impl Figures {
    pub fn add(&mut self, name: &str, duration: Duration) {
        self.samples.entry(name.to_owned()).or_default().push(duration);
    }

    /// Adds a table row with the median of `numerator` divided by the median of `denominator`.
    pub fn add_ratio(&mut self, label: &str, numerator: &str, denominator: &str) {
        self.add_quantile_ratio(0.5, label, numerator, denominator);
    }

    /// Like [`Figures::add_ratio`], but uses the quantile `quantile` instead of the median.
    pub fn add_quantile_ratio(
        &mut self,
        quantile: f64,
        label: &str,
        numerator: &str,
        denominator: &str,
    ) {
        self.ratios.push((
            label.to_owned(),
            numerator.to_owned(),
            denominator.to_owned(),
            quantile,
        ));
    }

    pub fn print(&self) {
        println!(
            "\n{:<34} {:>9} {:>9} {:>9} {:>9} {:>5}",
            "milliseconds", "min", "median", "p99", "max", "n"
        );
        for (name, samples) in &self.samples {
            let sorted = sort_samples(samples);
            let ms = |index: usize| sorted[index].as_secs_f64() * 1e3;
            println!(
                "{name:<34} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>5}",
                ms(0),
                ms(sorted.len() / 2),
                ms(sorted.len() * 99 / 100),
                ms(sorted.len() - 1),
                sorted.len()
            );
        }
        println!();
        for (label, over, under, share) in &self.ratios {
            println!(
                "{label:<50} {:>8.2}x",
                self.quantile(over, *share) / self.quantile(under, *share)
            );
        }
    }

    /// Returns the quantile `quantile` of the durations, in seconds.
    fn quantile(&self, name: &str, quantile: f64) -> f64 {
        self.samples.get(name).map_or(f64::NAN, |samples| {
            let index = (samples.len() as f64 * quantile) as usize;
            sort_samples(samples)[index.min(samples.len() - 1)].as_secs_f64()
        })
    }
}

fn sort_samples(samples: &[Duration]) -> Vec<Duration> {
    let mut sorted = samples.to_vec();
    sorted.sort();
    sorted
}
