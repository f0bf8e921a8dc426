use crate::bad::Complaint;

/// The splits of one file that holds several.
pub(crate) struct Splits {
    wanted: Option<String>,
    seen: Option<String>,
    told: bool,
}

impl Splits {
    pub(crate) fn of(wanted: Option<String>) -> Self {
        Self { wanted, seen: None, told: false }
    }

    /// Whether the rows of a split count. Where none was asked for, a second one is a question.
    pub(crate) fn takes(&mut self, split: &str) -> Result<bool, Complaint> {
        if let Some(wanted) = &self.wanted {
            return Ok(wanted == split);
        }
        let first = self.seen.get_or_insert_with(|| split.to_owned());
        if first == split {
            return Ok(true);
        }
        let told = std::mem::replace(&mut self.told, true);
        let what = format!(
            "has several splits, such as {first} and {split}; choose one, as in `#split={first}`"
        );
        if told { Ok(false) } else { Err(Complaint::whole(what)) }
    }
}
