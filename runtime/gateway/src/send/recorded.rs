//! Reads a recorded response like one that has just arrived.

use proctor_types::NativeTurn;

use super::{
    attempt::{AttemptEnd, AttemptResult},
    body::{self, Body},
};
use crate::{TrialGateway, ask::InProcessClient};

impl TrialGateway {
    /// Returns the result of an attempt that received these bytes. If they are not a
    /// complete response, the result has no stop reason.
    pub(crate) async fn read_recorded_response(&self, raw: Vec<u8>) -> AttemptResult {
        let (route, client) = (self.route(), &mut InProcessClient);
        let mut result = AttemptResult {
            status: Some(200),
            raw: raw.as_slice().into(),
            ..AttemptResult::default()
        };
        match Body::detect(&result.raw, route.model.api) {
            Body::Stream(mut stream) => {
                let read = stream.read_events(route, true, true, client, &mut result).await;
                result.end = read.err().map(AttemptEnd::Broken);
                stream.correct_content(route, &mut result);
                let items = stream.take_turn();
                result.response.native_turn = Some(NativeTurn { api: route.model.api, items });
            }
            Body::Undecided | Body::Complete => {
                body::read_complete_body(route, 0, client, &mut result);
            }
        }
        result.read_names_and_stop();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use proctor_types::{Budget, Event, Fault, ModelSpec};
    use serde_json::json;

    use crate::{ExchangeSink, Gateway, PriceTable, TrialGateway};

    const PRICES: &str = "[models.m]\ninput = 1.0\noutput = 2.0\n";

    struct NoSink;

    #[async_trait]
    impl ExchangeSink for NoSink {
        async fn store_body(&self, _: &[u8]) -> Result<String, Fault> {
            Ok(String::new())
        }

        async fn record_event(&self, _: u64, _: Event) -> Result<(), Fault> {
            Ok(())
        }
    }

    fn trial() -> TrialGateway {
        let spec: ModelSpec =
            serde_json::from_value(json!({"base_url": "http://h/v1", "name": "m"}))
                .expect("a model");
        let gateway = Gateway::new(PriceTable::parse(PRICES).expect("a table")).expect("a gateway");
        gateway.open(&spec, &Budget::default(), Arc::new(NoSink)).expect("a trial")
    }

    #[tokio::test]
    async fn recorded_streams_and_documents_are_read() {
        let stream = "data: {\"id\": \"c1\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"Do\"}}]}\n\n\
            data: {\"id\": \"c1\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": \"ne.\"}, \
            \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";
        let document = r#"{"id": "c1", "choices": [{"index": 0, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Done."}}]}"#;
        let trial = trial();
        let streamed = trial.read_recorded_response(stream.into()).await;
        let whole = trial.read_recorded_response(document.into()).await;
        assert_eq!(streamed.response.items, whole.response.items);
        assert_eq!(streamed.response.items.len(), 1);
        assert_eq!(
            (streamed.names.id.as_deref(), whole.names.id.as_deref()),
            (Some("c1"), Some("c1"))
        );
        for cut in ["{\"choices\": ", &stream[..90]] {
            let broken = trial.read_recorded_response(cut.into()).await;
            assert!(broken.response.reported_stop.is_none(), "{cut}");
        }
    }
}
