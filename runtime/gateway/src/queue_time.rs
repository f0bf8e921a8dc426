//! The queue time that an endpoint reports for a request.

use std::time::Duration;

use http::HeaderMap;
use proctor_types::{Fault, FaultLayer, ShippedTable};
use serde::Deserialize;
use serde_json::Value;

use crate::responder::json_objects;

/// Where endpoints report queue times. Loaded from `configs/tables/queue-time.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueueTimes {
    field: Vec<QueueTimeField>,
    header: Vec<QueueTimeHeader>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTimeField {
    /// JSON pointer into the response or an event.
    pointer: String,
    /// The unit of the value, in seconds.
    unit_seconds: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueTimeHeader {
    name: String,
    /// The unit of the value, in seconds.
    unit_seconds: f64,
}

impl QueueTimes {
    /// Returns the built-in table. A test checks that it is valid.
    pub(crate) fn shipped() -> Result<&'static Self, Fault> {
        static SHIPPED: ShippedTable<QueueTimes> = ShippedTable::new(
            "tables/queue-time.toml",
            include_str!("../../../configs/tables/queue-time.toml"),
        );
        SHIPPED.get().map_err(|what| Fault::new(FaultLayer::Model, what))
    }

    /// Returns the time that a response's headers state, or zero.
    pub(crate) fn in_headers(&self, headers: &HeaderMap) -> Duration {
        let times = self.header.iter().filter_map(|header| {
            let value = headers.get(&header.name)?.to_str().ok()?.trim().parse::<f64>().ok()?;
            to_duration(value, header.unit_seconds)
        });
        times.max().unwrap_or_default()
    }

    /// Returns the longest time that a response states, or zero. `raw` is a document or a stream.
    pub(crate) fn in_body(&self, raw: &[u8]) -> Duration {
        let mut keys = self.field.iter().filter_map(|field| field.pointer.rsplit('/').next());
        // Don't parse responses that state no time.
        if !keys.any(|key| memchr::memmem::find(raw, key.as_bytes()).is_some()) {
            return Duration::ZERO;
        }
        let text = String::from_utf8_lossy(raw);
        let times = json_objects(&text).filter_map(|object| self.in_object(object));
        times.max().unwrap_or_default()
    }

    fn in_object(&self, object: &str) -> Option<Duration> {
        let mut keys = self.field.iter().filter_map(|field| field.pointer.rsplit('/').next());
        if !keys.any(|key| object.contains(key)) {
            return None;
        }
        let object: Value = serde_json::from_str(object).ok()?;
        let times = self.field.iter().filter_map(|field| {
            to_duration(object.pointer(&field.pointer)?.as_f64()?, field.unit_seconds)
        });
        times.max()
    }
}

/// Converts a stated time. Returns `None` if it is negative or not a number.
fn to_duration(value: f64, unit_seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(value * unit_seconds).ok()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Duration, QueueTimes};

    #[test]
    fn stated_times_are_found_in_documents_and_streams() {
        let times = QueueTimes::shipped().expect("a valid table");
        for (raw, milliseconds) in [
            (r#"{"choices": [], "usage": {"queue_time": 5.5, "total_time": 6.0}}"#, 5500),
            (r#"{"time_info": {"queue_time": 0.25, "prompt_time": 3}}"#, 250),
            (
                "data: {\"choices\": [], \"queue_time\": 9}\n\n\
                 data: {\"choices\": [], \"x_groq\": {\"usage\": {\"queue_time\": 2}}}\n\n\
                 data: {\"choices\": [], \"usage\": {\"queue_time\": 2}}\n\ndata: [DONE]\n\n",
                2000,
            ),
            (r#"{"usage": {"queue_time": null}}"#, 0),
            (r#"{"usage": {"queue_time": -0.000039}}"#, 0),
            (r#"{"usage": {"queue_time": "5"}}"#, 0),
            (r#"{"choices": [{"message": {"content": "the queue_time is 5"}}]}"#, 0),
            (r#"{"usage": {"total_time": 6.0}}"#, 0),
            ("queue_time", 0),
        ] {
            let stated = times.in_body(raw.as_bytes());
            assert_eq!(stated, Duration::from_millis(milliseconds), "{raw}");
        }
    }

    #[test]
    fn stated_times_are_found_in_headers() {
        let times = QueueTimes::shipped().expect("a valid table");
        for (name, value, milliseconds) in [
            ("x-queue-time", "1500", 1500),
            ("x-queue-time", "soon", 0),
            ("openai-processing-ms", "1500", 0),
        ] {
            let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
            let headers = HeaderMap::from_iter([(name, value)]);
            assert_eq!(times.in_headers(&headers), Duration::from_millis(milliseconds));
        }
    }
}
