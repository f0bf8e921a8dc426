//! The one way to standard output: what a command was asked for.

use std::io::{self, ErrorKind, Write};

/// Writes a result. A reader that has seen enough (`| head -1`) closes the pipe: that ends the
/// printing, not the command, whose exit status stays what it found. `println!` would panic, and
/// SIGPIPE's default would end a run that has still to be recorded.
///
/// # Errors
/// Whatever else keeps the text from being written, such as a full disk.
pub fn result(text: &str) -> io::Result<()> {
    to(&mut io::stdout().lock(), text)
}

fn to(out: &mut impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
