//! Output: results on standard output, everything else on standard error.

use std::io::{self, ErrorKind, Write};

use proctor_types::escape_unprintable;

/// Writes a result. If the reader closes the pipe early (`| head -1`), the output ends but the
/// command continues and keeps its exit status. `println!` would panic, and SIGPIPE's default would
/// kill a run that still has to be recorded.
///
/// # Errors
/// The text cannot be written for another reason, such as a full disk.
pub fn print_result(text: &str) -> io::Result<()> {
    write_output(&mut io::stdout().lock(), text)
}

/// Like [`print_result`], for people: names and text from files and responses cannot control the terminal.
///
/// # Errors
/// The same as for [`print_result`].
pub fn print_visible(text: &str) -> io::Result<()> {
    print_result(&escape_unprintable(text))
}

/// Prints a line on standard error. It may quote a name from a file or an endpoint's message, so
/// terminal control characters are escaped. Escaping at each call site was tried first, and some
/// were missed.
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
