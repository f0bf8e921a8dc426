//! Merges repeated errors into one line with a count.

/// Minimum length of an id, in characters. A word of this length or longer that contains a digit is
/// treated as the id of a request or trial.
const MIN_ID_LENGTH: usize = 16;

/// Returns the error message with the ids of requests and trials removed. Errors with the same key
/// are treated as the same error.
pub fn error_key(error: &str) -> String {
    let is_of_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut key = String::with_capacity(error.len());
    let mut rest = error;
    while let Some(first) = rest.chars().next() {
        let (word, after) = match is_of_word(first) {
            true => rest.split_at(rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())),
            false => rest.split_at(first.len_utf8()),
        };
        let is_id =
            word.chars().count() >= MIN_ID_LENGTH && word.contains(|c: char| c.is_ascii_digit());
        key.push_str(if is_id { "#" } else { word });
        rest = after;
    }
    key
}

/// Takes pairs of a location and an error. Returns one line per distinct error, with its locations,
/// count and message, in order of first occurrence. A line names at most `max_locations` locations.
pub fn deduplicate_errors(
    errors: impl IntoIterator<Item = (String, String)>,
    max_locations: usize,
) -> Vec<String> {
    let mut distinct_errors: Vec<(String, String, Vec<String>)> = Vec::new();
    for (place, error) in errors {
        let key = error_key(&error);
        match distinct_errors.iter_mut().find(|(known, ..)| *known == key) {
            Some((.., places)) => places.push(place),
            None => distinct_errors.push((key, error, vec![place])),
        }
    }
    distinct_errors
        .into_iter()
        .map(|(_, error, places)| format_error_line(&error, &places, max_locations))
        .collect()
}

fn format_error_line(error: &str, locations: &[String], max_locations: usize) -> String {
    let more = locations.len().saturating_sub(max_locations);
    let named = locations.iter().take(max_locations).cloned().collect::<Vec<_>>().join(", ");
    match (locations.len(), more) {
        (1, _) => format!("{named}: {error}"),
        (count, 0) => format!("{named} ({count} times): {error}"),
        (count, more) => format!("{named} and {more} more ({count} times): {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located_error(location: &str, error: &str) -> (String, String) {
        (location.to_owned(), error.to_owned())
    }

    #[test]
    fn repeated_error_is_printed_once_with_its_places() {
        let errors = [
            located_error("a", "no key"),
            located_error("b", "busy"),
            located_error("c", "no key"),
            located_error("d", "no key"),
            located_error("e", "no key"),
        ];
        assert_eq!(
            deduplicate_errors(errors, 3),
            ["a, c, d and 1 more (4 times): no key", "b: busy"]
        );
        assert_eq!(
            deduplicate_errors([located_error("a", "x"), located_error("b", "x")], 3),
            ["a, b (2 times): x"]
        );
        assert!(deduplicate_errors([], 3).is_empty());
    }

    #[test]
    fn errors_with_different_statuses_are_not_merged() {
        let of = |id: &str| format!("status 500: request {id} failed");
        assert_eq!(error_key(&of("req_011CQaBcDeFgHiJk")), error_key(&of("req_02xYzaBcDeFgHiJk")));
        assert_eq!(
            error_key(&of("123e4567-e89b-12d3-a456-426614174000")),
            error_key(&of("00000000-e89b-12d3-a456-426614174001"))
        );
        assert_ne!(error_key("status 500"), error_key("status 401"));
        assert_ne!(error_key("http://127.0.0.1:1/v1"), error_key("http://127.0.0.1:2/v1"));
        assert_eq!(error_key("größe: é 1"), "größe: é 1");
    }
}
