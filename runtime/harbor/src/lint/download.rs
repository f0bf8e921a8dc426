//! Detects downloads in shell commands.

/// Whether a command downloads a file from another host and saves or executes it. `next_program` is
/// the program to which the command's output is piped.
pub(super) fn is_download(command: &[&str], next_program: Option<&str>) -> bool {
    let Some((&program, arguments)) = command.split_first() else { return false };
    if !matches!(program, "curl" | "wget" | "git")
        || !arguments.iter().any(|word| is_external(word))
    {
        return false;
    }
    if program == "git" {
        return arguments.first() == Some(&"clone");
    }
    if matches!(next_program, Some("sh" | "bash")) {
        return true;
    }
    // Skip requests that only check whether a service responds. They save nothing.
    if arguments.iter().any(|word| matches!(*word, "--spider" | "-O-" | "-qO-")) {
        return false;
    }
    let is_kept = |output: &str| !matches!(output, "" | "-" | "/dev/null") && !output.contains('$');
    for (index, word) in arguments.iter().enumerate() {
        let long = ["--output=", "--output-document="];
        if matches!(*word, "-o" | "--output" | "-O" | "--output-document" | ">") {
            if program == "curl" && *word == "-O" {
                return true;
            }
            return is_kept(arguments.get(index + 1).copied().unwrap_or_default());
        }
        if let Some(output) = long.iter().find_map(|option| word.strip_prefix(option)) {
            return is_kept(output);
        }
        if let Some(output) = word.strip_prefix("-o").filter(|_| program == "curl") {
            return is_kept(output);
        }
    }
    program == "wget" || arguments.iter().any(|word| word.starts_with('>') && *word != ">/dev/null")
}

/// Whether a word is the URL or SSH address of another host.
fn is_external(word: &str) -> bool {
    let word = word.strip_prefix("--url=").unwrap_or(word);
    let is_name = |host: &str| {
        host.contains('.') && !host.starts_with("127.") && !host.ends_with(".localhost")
    };
    if parse_host(word).is_some_and(|host| is_name(&host)) {
        return true;
    }
    // `git@HOST:PATH`
    let ssh = word.strip_prefix("git@").and_then(|rest| rest.split_once(':'));
    ssh.is_some_and(|(host, _)| {
        host.split_once('.').is_some_and(|(first, rest)| !first.is_empty() && !rest.is_empty())
    })
}

/// Returns the host in an address, in lower case.
fn parse_host(address: &str) -> Option<String> {
    let rest = match address.split_once("://") {
        Some((scheme, rest)) => {
            let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            is_scheme.then_some(rest)?
        }
        None => address.strip_prefix("//")?,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split(':').next()?;
    (!host.is_empty()).then(|| host.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn download_counts_only_if_external_and_saved_or_executed() {
        for (command, next, expected) in [
            ("curl -LsSf https://a.sh/x", Some("sh"), true),
            ("curl -LsSf https://a.sh/x", Some("grep"), false),
            ("curl -o x https://a.sh/x", None, true),
            ("curl -ox https://a.sh/x", None, true),
            ("curl -o /dev/null https://a.sh/x", None, false),
            ("curl https://a.sh/x > x", None, true),
            ("curl -O https://a.sh/x", None, true),
            ("curl -o x http://localhost:80/x", None, false),
            ("curl -o x http://127.0.0.1/x", None, false),
            ("wget https://a.sh/x", None, true),
            ("wget -qO- https://a.sh/x", None, false),
            ("wget --spider https://a.sh/x", None, false),
            ("git clone https://a.sh/x", None, true),
            ("git clone git@a.sh:x", None, true),
            ("git fetch https://a.sh/x", None, false),
            ("echo https://a.sh/x", None, false),
        ] {
            let words: Vec<&str> = command.split(' ').collect();
            assert_eq!(is_download(&words, next), expected, "{command} | {next:?}");
        }
    }
}
