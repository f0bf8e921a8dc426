//! Prints results on standard output, and everything else on standard error.

use std::io::{self, ErrorKind, Write};

use proctor_types::escape_unprintable;

/// Writes a result to standard output. If the reader closes the pipe early (`| head -1`), the
/// output stops, but the command continues and keeps its exit status. In the same situation,
/// `println!` would panic, and the default action of SIGPIPE would kill a run that is not recorded
/// yet.
///
/// # Errors
/// Fails if the text cannot be written for another reason, such as a full disk.
pub fn print_result(text: &str) -> io::Result<()> {
    write_output(&mut io::stdout().lock(), text)
}

/// Like [`print_result`], for text that people read. Control characters in names, files and
/// responses are escaped, so they cannot control the terminal.
///
/// # Errors
/// Fails in the same cases as [`print_result`].
pub fn print_escaped(text: &str) -> io::Result<()> {
    print_result(&escape_unprintable(text))
}

/// Prints a line on standard error. The line may quote a file name or an endpoint's message, so
/// terminal control characters are escaped. Escaping happens here, because some call sites forgot
/// it.
macro_rules! tell {
    ($($line:tt)*) => {
        ::std::eprintln!("{}", ::proctor_types::escape_unprintable(&::std::format!($($line)*)))
    };
}

fn write_output(out: &mut impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
