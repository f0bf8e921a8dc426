//! Converts errors from the engine to faults.

use bollard::errors::Error;
use proctor_types::{Fault, FaultCause, FaultLayer, format_error_chain};

pub fn sandbox_fault(operation: &str, error: &Error) -> Fault {
    Fault::new(FaultLayer::Sandbox, format!("{operation}: {}", engine_message(error)))
        .cause(cause(error))
}

pub fn environment_fault(operation: &str, error: &Error) -> Fault {
    Fault::new(FaultLayer::Environment, format!("{operation}: {}", engine_message(error)))
        .cause(cause(error))
}

/// Returns the cause of an error, which depends on whether the engine responded.
fn cause(error: &Error) -> FaultCause {
    match error {
        Error::DockerResponseServerError { message, .. } => FaultCause::from_output(message),
        // All other errors concern the connection, because a working engine responds with a status
        // code.
        Error::SocketNotFoundError(_) | Error::RequestTimeoutError => FaultCause::BackEndGone,
        _ => FaultCause::Other,
    }
}

/// Returns whether a registry reported that the image does not exist.
pub fn is_no_such_image(error: &Error) -> bool {
    let words = engine_message(error).to_lowercase();
    let signs =
        ["not found", "manifest unknown", "does not exist", "access denied", "invalid reference"];
    is_missing(error) || signs.iter().any(|sign| words.contains(sign))
}

pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

/// Returns the engine's own message, without the client's prefix.
pub fn engine_message(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        // The client's own message only says that there was an error. Its causes contain the
        // details.
        other => format_error_chain(other),
    }
}
