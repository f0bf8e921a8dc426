//! Reproducible random numbers. The same seed yields the same numbers on every machine, regardless
//! of the order of execution.

use proctor_types::sha256_hex;

/// A random number generator (SplitMix64) that is seeded with a list of strings.
#[derive(Debug, Clone)]
pub(super) struct SeededRng(u64);

impl SeededRng {
    pub(super) fn from_parts(parts: &[&str]) -> Self {
        let digest = sha256_hex(parts.join("\0").as_bytes());
        Self(u64::from_str_radix(&digest[..16], 16).unwrap_or(1))
    }

    /// Returns the next number. The algorithm is implemented here, because a library might change
    /// its generator between versions.
    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number between `low` and `high`, inclusive.
    pub(super) fn number_between(&mut self, low: usize, high: usize) -> usize {
        let width = high.saturating_sub(low) as u64 + 1;
        low + (self.next_u64() % width) as usize
    }

    /// Returns at most `max_items` randomly drawn elements of a list, in random order.
    pub(super) fn sample<T>(&mut self, mut items: Vec<T>, max_items: usize) -> Vec<T> {
        let mut out = Vec::new();
        while out.len() < max_items && !items.is_empty() {
            let index = self.number_between(0, items.len() - 1);
            out.push(items.swap_remove(index));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_yields_same_numbers() {
        let draw = |word: &str| {
            let mut seeded = SeededRng::from_parts(&["seed", word]);
            (seeded.number_between(3, 5), seeded.sample(vec![1, 2, 3, 4], 3))
        };
        assert_eq!(draw("a"), draw("a"));
        assert_ne!((draw("a"), draw("b")), (draw("b"), draw("a")));
        assert!((3..=5).contains(&draw("a").0) && draw("a").1.len() == 3);
        // The sequence must never change, because other numbers would create different tasks.
        assert_eq!(
            SeededRng::from_parts(&["seed"]).next_u64(),
            SeededRng::from_parts(&["seed"]).next_u64()
        );
    }
}
