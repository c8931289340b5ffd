//! JSON-RPC lines over blocking streams, as a transport for the SDK.
//!
//! Reading and writing have a thread each. A thread that is stuck in a read or a write of the operating
//! system cannot be cancelled; one that the runtime does not own cannot keep the process alive either.

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

use crate::message::{self, MESSAGE_BYTES_MAX, Refused};

/// Lines that wait on either side; with this many unread answers nothing more is read.
const QUEUE_LINES_MAX: usize = 64;

/// How long the last answers may take to be written once the client has closed its side.
const FLUSH_WAIT: Duration = Duration::from_secs(5);

/// A handle on one pair of streams; a second handle continues where the first one stopped.
#[derive(Clone)]
pub(crate) struct Lines {
    reading: Arc<Mutex<mpsc::Receiver<Line>>>,
    writing: mpsc::WeakSender<Vec<u8>>,
    /// The sender that keeps the writer going; taken when the transport is closed.
    keeps_open: Arc<Mutex<Option<Open>>>,
    failed: Arc<OnceLock<io::Error>>,
}

struct Open {
    sender: mpsc::Sender<Vec<u8>>,
    written: oneshot::Receiver<Infallible>,
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl Lines {
    /// Starts both threads.
    pub(crate) fn start<R, W>(input: R, output: W) -> io::Result<Self>
    where
        R: Read + Send + 'static,
        W: Write + Send + 'static,
    {
        let (line_out, reading) = mpsc::channel(QUEUE_LINES_MAX);
        let (sender, answers) = mpsc::channel(QUEUE_LINES_MAX);
        let (writer_lives, written) = oneshot::channel();
        thread::Builder::new().name("mcp-read".to_owned()).spawn(move || read_lines(input, &line_out))?;
        let failed = Arc::new(OnceLock::new());
        let failing = Arc::clone(&failed);
        thread::Builder::new().name("mcp-write".to_owned()).spawn(move || {
            if let Err(error) = write_lines(output, answers) {
                // Written once: the thread ends here.
                let _ = failing.set(error);
            }
            drop(writer_lives);
        })?;
        Ok(Self {
            reading: Arc::new(Mutex::new(reading)),
            writing: sender.downgrade(),
            keeps_open: Arc::new(Mutex::new(Some(Open { sender, written }))),
            failed,
        })
    }

    /// Why answers could not be written; nothing when the client stopped reading, which is its right.
    pub(crate) fn write_failure(&self) -> Option<io::Error> {
        let error = self.failed.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
        Some(io::Error::new(error.kind(), format!("standard output cannot be written: {error}")))
    }

    fn sender(&self) -> Option<mpsc::Sender<Vec<u8>>> {
        self.writing.upgrade()
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let sender = self.sender();
        async move {
            let line = line(&message)?;
            // A client that no longer reads has left: no failure of ours, and nobody to tell.
            if let Some(sender) = sender {
                let _ = sender.send(line).await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut reading = self.reading.lock().await;
        loop {
            let sender = self.sender()?;
            // Room for an answer first: the SDK may drop this future at any await, and a line that was taken
            // must not be lost with it.
            let room = sender.reserve().await.ok()?;
            let line = tokio::select! {
                line = reading.recv() => line?,
                () = sender.closed() => return None,
            };
            let refused = match line {
                Line::Whole(bytes) => match message::read(&bytes) {
                    Ok(message) => return Some(message),
                    Err(refused) => refused,
                },
                Line::TooLong => message::too_long(),
            };
            let Refused { answer, reason } = refused;
            tracing::warn!(reason, "a message was refused");
            if let Some(answer) = answer.and_then(|answer| line_of_error(answer).ok()) {
                room.send(answer);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        if let Some(Open { sender, written }) = self.keeps_open.lock().await.take() {
            drop(sender);
            let _ = timeout(FLUSH_WAIT, written).await;
        }
        Ok(())
    }
}

fn line_of_error(error: rmcp::model::JsonRpcError) -> io::Result<Vec<u8>> {
    line(&JsonRpcMessage::Error(error))
}

fn line(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads until the end of input, or until nobody listens.
fn read_lines(input: impl Read, lines: &mpsc::Sender<Line>) {
    let mut input = BufReader::new(input);
    while let Some(line) = next_line(&mut input) {
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// The next line that is not blank, without its end; a last one may lack its line feed.
fn next_line(input: &mut impl BufRead) -> Option<Line> {
    loop {
        let mut bytes = Vec::new();
        let limit = MESSAGE_BYTES_MAX as u64 + 2;
        let read = input.by_ref().take(limit).read_until(b'\n', &mut bytes).ok()?;
        if read == 0 {
            return None;
        }
        let ended = bytes.pop_if(|last| *last == b'\n').is_some();
        bytes.pop_if(|last| *last == b'\r');
        if bytes.len() > MESSAGE_BYTES_MAX {
            if !ended {
                skip_line(input)?;
            }
            return Some(Line::TooLong);
        }
        if !bytes.trim_ascii().is_empty() {
            return Some(Line::Whole(bytes));
        }
    }
}

/// Throws away the rest of a line without keeping it.
fn skip_line(input: &mut impl BufRead) -> Option<()> {
    loop {
        let available = input.fill_buf().ok()?;
        if available.is_empty() {
            return Some(());
        }
        match available.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                input.consume(end + 1);
                return Some(());
            }
            None => {
                let all = available.len();
                input.consume(all);
            }
        }
    }
}

/// Writes until the transport is closed or the client stops reading.
fn write_lines(mut output: impl Write, mut lines: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(line) = lines.blocking_recv() {
        output.write_all(&line).and_then(|()| output.flush())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut input = Cursor::new(bytes);
        let mut seen = Vec::new();
        while let Some(line) = next_line(&mut input) {
            seen.push(match line {
                Line::Whole(bytes) => String::from_utf8(bytes).unwrap(),
                Line::TooLong => "TOO LONG".to_owned(),
            });
        }
        seen
    }

    #[test]
    fn lines_end_with_a_line_feed_or_with_the_input() {
        assert_eq!(lines(b"a\r\n\n  \nb\nc"), ["a", "b", "c"]);
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn a_line_beyond_the_limit_is_dropped_and_the_next_one_read() {
        let fits = "x".repeat(MESSAGE_BYTES_MAX);
        for excess in ["y", "yy", "yyy", &"y".repeat(100_000)] {
            let input = format!("{fits}{excess}\nnext\n{fits}\nlast");
            let seen = lines(input.as_bytes());
            assert_eq!(seen.len(), 4);
            assert_eq!([&seen[0], &seen[1], &seen[3]], ["TOO LONG", "next", "last"]);
            assert_eq!(seen[2].len(), MESSAGE_BYTES_MAX);
        }
    }

    #[tokio::test]
    async fn a_reader_that_left_ends_the_transport_quietly() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (input, _never_written) = io::pipe().unwrap();
        let mut lines = Lines::start(input, Broken).unwrap();
        let error = rmcp::ErrorData::internal_error("x", None);
        lines.send(ServerJsonRpcMessage::error(error, None)).await.unwrap();
        assert!(lines.receive().await.is_none());
        lines.close().await.unwrap();
        assert!(lines.write_failure().is_none());
    }

    #[tokio::test]
    async fn a_full_disk_behind_the_output_is_a_failure() {
        struct FullDisk;
        impl Write for FullDisk {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (input, _never_written) = io::pipe().unwrap();
        let mut lines = Lines::start(input, FullDisk).unwrap();
        let error = rmcp::ErrorData::internal_error("x", None);
        lines.send(ServerJsonRpcMessage::error(error, None)).await.unwrap();
        assert!(lines.receive().await.is_none());
        lines.close().await.unwrap();
        assert_eq!(lines.write_failure().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
