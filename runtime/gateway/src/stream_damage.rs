//! Damage to text that streams suffer on their way, but documents do not.
//!
//! The gateway repeats the request without streaming. If the second response looks the same, the
//! model itself writes this way, and the gateway no longer checks for it.

use crate::{
    TrialGateway,
    anomalies::AnomalyKind,
    attempt_failure::{AttemptFailure, FailureKind},
    checks::EndpointChecks,
    outgoing_request::OutgoingRequest,
    send::AttemptResult,
};

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamDamage {
    /// The stream lost the chunks that contain only whitespace, and with them the indentation.
    LostIndentation,
    /// A proxy decoded the text with the wrong encoding.
    Misdecoded,
    /// Each piece of the text was sent twice.
    Doubled,
}

impl StreamDamage {
    const ALL: [Self; 3] = [Self::LostIndentation, Self::Misdecoded, Self::Doubled];

    fn describe(self) -> &'static str {
        match self {
            Self::LostIndentation => "code in the response lost its indentation",
            Self::Misdecoded => "the response's text was decoded with the wrong encoding",
            Self::Doubled => "the stream contains each piece of the text twice",
        }
    }

    /// Whether a model cannot write such text itself.
    fn is_certain(self) -> bool {
        matches!(self, Self::Doubled)
    }

    /// Returns the anomaly that a damaged response is if the request cannot be repeated.
    pub(crate) fn anomaly(self) -> AnomalyKind {
        match self {
            Self::LostIndentation => AnomalyKind::LostIndentation,
            Self::Misdecoded | Self::Doubled => AnomalyKind::DamagedStream,
        }
    }

    fn is_in(
        self,
        checks: &EndpointChecks,
        request: &OutgoingRequest,
        result: &AttemptResult,
    ) -> bool {
        match self {
            Self::LostIndentation => checks.indentation.has_flat_code(&result.response),
            Self::Misdecoded => checks.misdecoded.is_misdecoded(&result.response),
            Self::Doubled => request.is_streaming && checks.doubled.has_doubled_deltas(&result.raw),
        }
    }
}

impl TrialGateway {
    /// Returns the kinds of damage in a response, except those that the model itself writes.
    /// `is_forwarded` says whether the client received the response while it arrived. Such a stream
    /// cannot be compared with a document, so only certain damage counts.
    pub(crate) fn stream_damages(
        &self,
        checks: &EndpointChecks,
        request: &OutgoingRequest,
        result: &AttemptResult,
        is_forwarded: bool,
    ) -> Vec<StreamDamage> {
        let (model, halts) = (&self.route().model, &self.route().halts);
        let is_damaged = |damage: &StreamDamage| {
            (!is_forwarded || damage.is_certain())
                && !halts.writes_like(model, *damage)
                && damage.is_in(checks, request, result)
        };
        StreamDamage::ALL.into_iter().filter(is_damaged).collect()
    }

    /// Returns why a damaged response must be requested again, or `None` if the model itself writes
    /// this way.
    pub(crate) fn find_stream_damage(
        &self,
        checks: &EndpointChecks,
        request: &OutgoingRequest,
        result: &AttemptResult,
    ) -> Option<AttemptFailure> {
        let (model, halts) = (&self.route().model, &self.route().halts);
        let damages = self.stream_damages(checks, request, result, false);
        if !request.is_streaming {
            damages.into_iter().for_each(|damage| halts.note_own_style(model, damage));
            return None;
        }
        // If the endpoint supports only streams, repeating the request does not help. The response
        // is then an anomaly.
        let damage = damages.into_iter().next().filter(|_| !halts.is_stream_only(model))?;
        Some(AttemptFailure::new(FailureKind::Corrupted, damage.describe()))
    }
}
