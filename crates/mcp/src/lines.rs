//! JSON-RPC lines over blocking streams, as a transport for the SDK.
//!
//! Reading and writing each have a thread. A thread that is stuck in a system call cannot be cancelled; one that the
//! runtime does not own cannot keep the process alive either.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

use crate::addressee::{Addressee, Scan};
use crate::batch::{self, BatchedAnswer, Batches};
use crate::message::{self, MESSAGE_BYTES_MAX, RejectedMessage};

/// How many lines may wait on either side; with this many unread answers, reading stops.
const QUEUE_LINES_MAX: usize = 64;

/// How long writing the last answers may take once the client has closed its side.
const FLUSH_WAIT: Duration = Duration::from_secs(5);

/// A handle on one pair of streams; a second handle continues where the first stopped.
#[derive(Clone)]
pub(crate) struct Lines {
    reading: Arc<Mutex<mpsc::Receiver<InputLine>>>,
    writing: mpsc::WeakSender<Vec<u8>>,
    /// Keeps the writing thread running; taken when the transport is closed.
    writer: Arc<Mutex<Option<WriterThread>>>,
    failed: Arc<OnceLock<io::Error>>,
    batches: Arc<std::sync::Mutex<OpenBatches>>,
}

/// Messages of a batch not handled yet, and batches not answered yet.
#[derive(Default)]
struct OpenBatches {
    unread: VecDeque<ClientJsonRpcMessage>,
    unanswered: Batches,
}

/// The sender to the writing thread, and the end of that thread.
struct WriterThread {
    sender: mpsc::Sender<Vec<u8>>,
    written: oneshot::Receiver<Infallible>,
}

enum InputLine {
    Whole(Vec<u8>),
    TooLong(Addressee),
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
                // Set only once: the thread ends here.
                let _ = failing.set(error);
            }
            drop(writer_lives);
        })?;
        Ok(Self {
            reading: Arc::new(Mutex::new(reading)),
            writing: sender.downgrade(),
            writer: Arc::new(Mutex::new(Some(WriterThread { sender, written }))),
            failed,
            batches: Arc::default(),
        })
    }

    /// Why answers could not be written; `None` if the client stopped reading, which it may do.
    pub(crate) fn write_failure(&self) -> Option<io::Error> {
        let error = self.failed.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
        Some(io::Error::new(error.kind(), format!("standard output cannot be written: {error}")))
    }

    fn sender(&self) -> Option<mpsc::Sender<Vec<u8>>> {
        self.writing.upgrade()
    }

    /// Held for a few operations on lists, never while waiting.
    fn batches(&self) -> std::sync::MutexGuard<'_, OpenBatches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a line contains: a message to handle, or an immediate answer.
    fn take(&self, line: InputLine) -> LineAction {
        let refused = match line {
            InputLine::Whole(bytes) => match batch::elements(&bytes) {
                Some(Err(refused)) => refused,
                Some(Ok(elements)) => {
                    let mut batches = self.batches();
                    let (messages, answer) = batches.unanswered.open(&elements);
                    batches.unread.extend(messages);
                    return LineAction::Answer(answer);
                }
                None => match message::read(&bytes) {
                    Ok(message) => return LineAction::Message(Box::new(message)),
                    Err(refused) => refused,
                },
            },
            InputLine::TooLong(addressee) => message::too_long(addressee),
        };
        let RejectedMessage { answer, reason } = refused;
        tracing::warn!(reason, "a message was refused");
        LineAction::Answer(answer.and_then(|answer| serde_json::to_vec(&answer).ok()))
    }

    /// The next message of a batch that was already read.
    fn next_of_batch(&self) -> Option<ClientJsonRpcMessage> {
        self.batches().unread.pop_front()
    }

    /// The answer of a batch that was waiting only for the request that this message cancels.
    fn completed_by(&self, message: &ClientJsonRpcMessage) -> Option<Vec<u8>> {
        self.batches().unanswered.cancelled(cancelled_id(message)?)
    }
}

enum LineAction {
    Message(Box<ClientJsonRpcMessage>),
    Answer(Option<Vec<u8>>),
}

fn cancelled_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    let JsonRpcMessage::Notification(notification) = message else { return None };
    let ClientNotification::CancelledNotification(cancelled) = &notification.notification else {
        return None;
    };
    cancelled.params.request_id.as_ref()
}

/// The request that a message answers.
fn answered_id(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let sender = self.sender();
        let line = serde_json::to_vec(&message).map(|bytes| match answered_id(&message) {
            Some(id) => match self.batches().unanswered.answered(id, bytes) {
                BatchedAnswer::Alone(answer) | BatchedAnswer::Together(answer) => Some(answer),
                BatchedAnswer::Incomplete => None,
            },
            None => Some(bytes),
        });
        async move {
            // A client that no longer reads has disconnected, which is not our failure.
            if let (Some(sender), Some(line)) = (sender, line?) {
                let _ = sender.send(ended(line)).await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let mut reading = self.reading.lock().await;
        loop {
            let sender = self.sender()?;
            // Reserve room for an answer first: the SDK may drop this future at any await, and a line already taken
            // must not be lost with it.
            let room = sender.reserve().await.ok()?;
            let taken = match self.next_of_batch() {
                Some(message) => LineAction::Message(Box::new(message)),
                None => self.take(tokio::select! {
                    line = reading.recv() => line?,
                    () = sender.closed() => return None,
                }),
            };
            match taken {
                LineAction::Message(message) => {
                    if let Some(answer) = self.completed_by(&message) {
                        room.send(ended(answer));
                    }
                    return Some(*message);
                }
                LineAction::Answer(Some(answer)) => room.send(ended(answer)),
                LineAction::Answer(None) => {}
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        if let Some(WriterThread { sender, written }) = self.writer.lock().await.take() {
            drop(sender);
            let _ = timeout(FLUSH_WAIT, written).await;
        }
        Ok(())
    }
}

fn ended(mut line: Vec<u8>) -> Vec<u8> {
    line.push(b'\n');
    line
}

/// Reads until the end of input, or until the receiver is gone.
fn read_lines(input: impl Read, lines: &mpsc::Sender<InputLine>) {
    let mut input = BufReader::new(input);
    while let Some(line) = next_line(&mut input) {
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

/// The next line that is not blank, without its line feed, which the last line may lack.
fn next_line(input: &mut impl BufRead) -> Option<InputLine> {
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
            let mut scan = Scan::default();
            scan.feed(&bytes);
            drop(bytes);
            if !ended {
                skip_line(input, &mut scan)?;
            }
            return Some(InputLine::TooLong(scan.finish()));
        }
        if !bytes.trim_ascii().is_empty() {
            return Some(InputLine::Whole(bytes));
        }
    }
}

/// Scans the rest of a line without keeping it.
fn skip_line(input: &mut impl BufRead, scan: &mut Scan) -> Option<()> {
    loop {
        let available = input.fill_buf().ok()?;
        if available.is_empty() {
            return Some(());
        }
        match available.iter().position(|byte| *byte == b'\n') {
            Some(end) => {
                scan.feed(&available[..end]);
                input.consume(end + 1);
                return Some(());
            }
            None => {
                scan.feed(available);
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
                InputLine::Whole(bytes) => String::from_utf8(bytes).unwrap(),
                InputLine::TooLong(_) => "TOO LONG".to_owned(),
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
    async fn a_client_that_stops_reading_ends_the_transport_quietly() {
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
