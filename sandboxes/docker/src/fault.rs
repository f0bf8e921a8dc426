//! The engine's errors as faults.

use bollard::errors::Error;
use proctor_types::{Fault, Layer};

pub fn sandbox(doing: &str, error: &Error) -> Fault {
    Fault::new(Layer::Sandbox, format!("{doing}: {}", words(error)))
}

pub fn environment(doing: &str, error: &Error) -> Fault {
    Fault::new(Layer::Environment, format!("{doing}: {}", words(error)))
}

pub fn is_missing(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

/// The engine's own message, without the client's frame around it.
pub fn words(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        // The client's own words say only that there was an error; its causes say which.
        other => {
            let mut words = other.to_string();
            let mut cause = std::error::Error::source(other);
            while let Some(error) = cause {
                words = format!("{words}: {error}");
                cause = error.source();
            }
            words
        }
    }
}
