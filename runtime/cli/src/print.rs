//! The ways out: to standard output what a command was asked for, to standard error what else is told.

use std::io::{self, ErrorKind, Write};

use proctor_types::visible;

/// Writes a result. A reader that has seen enough (`| head -1`) closes the pipe: that ends the
/// printing, not the command, whose exit status stays what it found. `println!` would panic, and
/// SIGPIPE's default would end a run that has still to be recorded.
///
/// # Errors
/// Whatever else keeps the text from being written, such as a full disk.
pub fn result(text: &str) -> io::Result<()> {
    to(&mut io::stdout().lock(), text)
}

/// [`result`] for readers: names and words from files and answers drive no terminal.
///
/// # Errors
/// As `result`.
pub fn shown(text: &str) -> io::Result<()> {
    result(&visible(text))
}

/// A line on standard error. It may quote a name from a file, or what an endpoint said: what would drive the terminal is
/// written out. Escaping at each place that quotes was tried first, and places were forgotten.
macro_rules! tell {
    ($($line:tt)*) => {
        ::std::eprintln!("{}", ::proctor_types::visible(&::std::format!($($line)*)))
    };
}

fn to(out: &mut impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
