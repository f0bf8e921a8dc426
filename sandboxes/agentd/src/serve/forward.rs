//! Listeners in the sandbox whose connections the agent forwards to the host.

use std::{
    io,
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::Duration,
};

use proctor_wire::{AcceptedConnection, Frame, FrameKind, Refusal, Reply, channel};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use super::{
    refusal::from_errno,
    server::Server,
    stream::{CHUNK_BYTES, Input, Stream},
};

/// Pause after a failed accept, for example when no descriptors are free.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Listens on 127.0.0.1 until the channel closes.
pub fn listen(server: &Arc<Server>, port: u16) -> Result<Reply, Refusal> {
    let refused = |error: io::Error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        from_errno(errno, format!("listening on 127.0.0.1:{port}"))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(refused)?;
    let port = listener.local_addr().map_err(refused)?.port();
    let server = Arc::clone(server);
    thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(move || {
            for connection in listener.incoming() {
                let forwarded = connection.and_then(|c| accept(&server, port, c));
                if forwarded.is_err() {
                    thread::sleep(ACCEPT_RETRY_DELAY);
                }
            }
        })
        .map_err(refused)?;
    Ok(Reply::Listening { port })
}

fn accept(server: &Arc<Server>, port: u16, connection: TcpStream) -> io::Result<()> {
    connection.set_nonblocking(true)?;
    connection.set_nodelay(true)?;
    let stream = server.open_accepted_stream()?;
    let id = stream.id;
    if let Ok(frame) = Frame::json(FrameKind::Accepted, id, &AcceptedConnection { port }) {
        server.outbox.send(&frame);
    }
    let own = Arc::clone(server);
    let forwarding = thread::Builder::new().stack_size(256 << 10).spawn(move || {
        let mut forward = ForwardedConnection {
            reads_connection: true,
            writes_connection: true,
            pending_bytes: Vec::new(),
            connection,
        };
        let answer = match forward.run(&own, &stream) {
            Ok(()) => Ok(Reply::Done),
            Err(error) => Err(from_errno(error, "forwarded connection")),
        };
        own.close_stream(stream.id, &answer);
    });
    forwarding.map(drop).inspect_err(|_| {
        server.close_stream(id, &Err(from_errno(Errno::AGAIN, "starting a thread of the agent")));
    })
}

struct ForwardedConnection {
    connection: TcpStream,
    /// Whether more data may arrive from the connection for the host.
    reads_connection: bool,
    writes_connection: bool,
    pending_bytes: Vec<u8>,
}

impl ForwardedConnection {
    /// Forwards data until both sides have ended, one has failed, or the host cancels. The caller
    /// then closes the stream.
    fn run(&mut self, server: &Server, stream: &Stream) -> Result<(), Errno> {
        let fd = OwnedFd::from(self.connection.try_clone().map_err(|_| Errno::IO)?);
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut is_woken = false;
        loop {
            if is_woken {
                stream.clear_wake_event();
            }
            self.write_input(server, stream, &fd)?;
            if stream.is_cancelled() {
                return Err(Errno::CANCELED);
            }
            if !self.reads_connection && !self.writes_connection {
                return Ok(());
            }
            let mut wanted = PollFlags::empty();
            let credit = stream.credit().min(CHUNK_BYTES as u64) as usize;
            if self.reads_connection && credit > 0 {
                wanted |= PollFlags::IN;
            }
            if !self.pending_bytes.is_empty() {
                wanted |= PollFlags::OUT;
            }
            let mut fds = [
                PollFd::from_borrowed_fd(stream.wake_fd(), PollFlags::IN),
                PollFd::new(&fd, wanted),
            ];
            // Without requested events, poll would still return on a hang-up, so don't poll the
            // connection.
            let watched = if wanted.is_empty() { 1 } else { 2 };
            match poll(&mut fds[..watched], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            is_woken = !fds[0].revents().is_empty();
            let is_readable = !fds[1].revents().difference(PollFlags::OUT).is_empty();
            if wanted.contains(PollFlags::IN) && is_readable {
                match rustix::io::read(&fd, &mut buffer[..credit]) {
                    Ok(0) => {
                        self.reads_connection = false;
                        stream.send_end(&server.outbox, channel::STDOUT);
                    }
                    Ok(read) => stream.send(&server.outbox, channel::STDOUT, &buffer[..read]),
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }

    /// Writes the host's pending data to the connection. Stops when the connection would block.
    fn write_input(&mut self, server: &Server, stream: &Stream, fd: &OwnedFd) -> Result<(), Errno> {
        while self.writes_connection && !stream.is_cancelled() {
            if self.pending_bytes.is_empty() {
                match stream.take_input(&server.outbox) {
                    Input::Bytes(bytes) => self.pending_bytes = bytes,
                    Input::Nothing => break,
                    Input::Ended => {
                        self.writes_connection = false;
                        let _ = self.connection.shutdown(Shutdown::Write);
                        break;
                    }
                }
            }
            match rustix::io::write(fd, &self.pending_bytes) {
                Ok(written) => drop(self.pending_bytes.drain(..written)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
