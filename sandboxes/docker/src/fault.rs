//! The engine's errors as faults.

use bollard::errors::Error;
use proctor_types::{Cause, Fault, Layer, with_causes};

pub fn sandbox(doing: &str, error: &Error) -> Fault {
    Fault::new(Layer::Sandbox, format!("{doing}: {}", words(error))).cause(cause(error))
}

pub fn environment(doing: &str, error: &Error) -> Fault {
    Fault::new(Layer::Environment, format!("{doing}: {}", words(error))).cause(cause(error))
}

/// What the engine's answer, or its silence, means.
fn cause(error: &Error) -> Cause {
    match error {
        Error::DockerResponseServerError { message, .. } => Cause::of_text(message),
        // Everything else is about the connection: an engine that is well answers with a status.
        Error::SocketNotFoundError(_) | Error::RequestTimeoutError => Cause::BackEndGone,
        _ => Cause::Other,
    }
}

/// Whether a registry said that there is no such image, rather than nothing.
pub fn is_no_such_image(error: &Error) -> bool {
    let words = words(error).to_lowercase();
    let signs =
        ["not found", "manifest unknown", "does not exist", "access denied", "invalid reference"];
    is_missing(error) || signs.iter().any(|sign| words.contains(sign))
}

pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

/// The engine's own message, without the client's frame around it.
pub fn words(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        // The client's own words say only that there was an error; its causes say which.
        other => with_causes(other),
    }
}
