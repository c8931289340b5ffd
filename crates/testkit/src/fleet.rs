//! The servers of a team, `workrail serve` each, and agents that call them over HTTP at the same time while something
//! strikes: a server or the database is killed.
//!
//! No lock is held during a call. A call that is not answered, or whose answer says so, is repeated at another server,
//! as a client behind a load balancer does.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::home::Home;
use crate::mcp_client::ToolReply;
use crate::team::{access_token, serve, tool_request};
use crate::wire::{Http, HttpResponse};

/// Longer than any call takes, on a busy machine and with the database restarted in between.
const ANSWER_WAIT: Duration = Duration::from_secs(300);

/// Servers that share a store.
#[derive(Debug)]
pub struct Fleet {
    servers: Vec<FleetServer>,
    tokens: Vec<String>,
    /// Something strikes after every so many answers, so that agents get on however slow the machine is.
    answers_per_strike: usize,
    /// The number of answers at which something strikes next.
    next_strike: AtomicUsize,
    strikes: SyncSender<Option<usize>>,
    /// Held during an outage of everything, so that agents that noticed it do not call in vain.
    outage: RwLock<()>,
    counts: Counts,
}

#[derive(Debug)]
struct FleetServer {
    machine: Home,
    running: Mutex<Http>,
    /// Changes with every restart. Locked only to copy it.
    address: RwLock<String>,
    in_flight: AtomicUsize,
}

/// What happened so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Calls whose request was sent.
    pub sent: AtomicUsize,
    /// Calls that were cut: whether they were recorded is unknown.
    pub cut: AtomicUsize,
    pub answered: AtomicUsize,
    /// Answers that asked to repeat the call.
    pub refused: AtomicUsize,
    pub strikes: AtomicUsize,
    /// Calls that a killed server was working on.
    pub struck: AtomicUsize,
    pub in_flight: AtomicUsize,
    pub in_flight_max: AtomicUsize,
}

/// How one attempt at a call ended.
#[derive(Debug)]
enum CallAttempt {
    Answered(Box<ToolReply>),
    /// The server does not run.
    NotConnected,
    /// The request was sent, and the answer did not arrive.
    Cut,
    /// The answer asks to repeat the call after some time.
    Refused {
        after: Duration,
    },
}

/// Where strikes are announced: the index of a server with a call in flight.
#[derive(Debug)]
pub struct Strikes(Receiver<Option<usize>>);

impl Fleet {
    /// Starts a server on each machine. Agents use the tokens in turns.
    pub fn start(machines: Vec<Home>, tokens: usize, answers_per_strike: usize) -> (Self, Strikes) {
        let token = |number| access_token(&machines[0], &format!("agent-{number}"), "agent");
        let tokens = (0..tokens).map(token).collect();
        let servers = machines.into_iter().map(FleetServer::start).collect();
        let (strikes, receiver) = sync_channel(1);
        let (outage, counts) = (RwLock::default(), Counts::default());
        let next_strike = AtomicUsize::new(answers_per_strike);
        let fleet = Self { servers, tokens, answers_per_strike, next_strike, strikes, outage, counts };
        (fleet, Strikes(receiver))
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// A machine of the team.
    pub fn machine(&self) -> &Home {
        &self.servers[0].machine
    }

    /// Repeats a call of an agent until it is answered, at one server after another.
    pub fn call(&self, agent: usize, from: usize, tool: &str, arguments: &Value) -> ToolReply {
        for at in from.. {
            match self.attempt(agent, at % self.servers.len(), tool, arguments) {
                CallAttempt::Answered(reply) => return *reply,
                CallAttempt::NotConnected => thread::yield_now(),
                CallAttempt::Cut => self.wait_for_outage(),
                CallAttempt::Refused { after } => {
                    self.wait_for_outage();
                    // A client does as it is asked: without this, agents that are refused would call all the time.
                    thread::sleep(after);
                }
            }
        }
        unreachable!("there is always another server")
    }

    /// Returns at once, unless everything is down.
    fn wait_for_outage(&self) {
        drop(self.outage.read().unwrap());
    }

    /// Makes a call once; `None` if it was not answered.
    pub fn call_once(&self, agent: usize, at: usize, tool: &str, arguments: &Value) -> Option<ToolReply> {
        match self.attempt(agent, at % self.servers.len(), tool, arguments) {
            CallAttempt::Answered(reply) => Some(*reply),
            CallAttempt::NotConnected | CallAttempt::Cut | CallAttempt::Refused { .. } => None,
        }
    }

    fn attempt(&self, agent: usize, at: usize, tool: &str, arguments: &Value) -> CallAttempt {
        let server = &self.servers[at];
        let (headers, body) = tool_request(&self.tokens[agent % self.tokens.len()], tool, arguments);
        let address = server.address.read().unwrap().clone();
        let Ok(mut stream) = TcpStream::connect(&address) else { return CallAttempt::NotConnected };
        let answer = send(&mut stream, &address, &headers, &body).and_then(|()| {
            server.in_flight.fetch_add(1, Ordering::Relaxed);
            let in_flight = self.counts.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
            self.counts.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
            self.counts.sent.fetch_add(1, Ordering::Relaxed);
            self.strike_if_due(at);
            let answer = receive(&mut stream);
            server.in_flight.fetch_sub(1, Ordering::Relaxed);
            self.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
            answer
        });
        let attempt = match answer {
            Err(error) => {
                let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!is_late, "a call was not answered: {tool}");
                CallAttempt::Cut
            }
            Ok(answer) => read(&answer),
        };
        match attempt {
            CallAttempt::Cut => drop(self.counts.cut.fetch_add(1, Ordering::Relaxed)),
            CallAttempt::Refused { .. } => drop(self.counts.refused.fetch_add(1, Ordering::Relaxed)),
            CallAttempt::Answered(_) => drop(self.counts.answered.fetch_add(1, Ordering::Relaxed)),
            CallAttempt::NotConnected => {}
        }
        attempt
    }

    /// Announces a strike at a server that was just sent a call.
    fn strike_if_due(&self, at: usize) {
        let (answered, next) = (&self.counts.answered, &self.next_strike);
        let due = next.load(Ordering::Relaxed);
        let after = answered.load(Ordering::Relaxed) + self.answers_per_strike;
        let is_due = answered.load(Ordering::Relaxed) >= due;
        if is_due && next.compare_exchange(due, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // If the last strike is still being carried out, this one is left out.
            let _ = self.strikes.try_send(Some(at));
        }
    }

    /// Kills a server as a crash would, with whatever it is working on, and starts another in its place.
    pub fn kill_server(&self, at: usize) {
        let server = &self.servers[at];
        let mut running = server.running.lock().unwrap();
        self.counts.strikes.fetch_add(1, Ordering::Relaxed);
        self.counts.struck.fetch_add(server.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        *running = serve(&server.machine);
        *server.address.write().unwrap() = running.address.clone();
    }

    /// Something that no server can work without is down until this returns.
    pub fn during_outage(&self, outage: impl FnOnce()) {
        let held = self.outage.write().unwrap();
        self.counts.strikes.fetch_add(1, Ordering::Relaxed);
        self.counts.struck.fetch_add(self.counts.in_flight.load(Ordering::Relaxed), Ordering::Relaxed);
        outage();
        drop(held);
    }

    /// Runs agents at the same time and carries out strikes until the last agent ends; returns what the agents return.
    pub fn under_load<T: Send>(
        &self,
        strikes: Strikes,
        agents: usize,
        strike: impl Fn(usize) + Sync,
        agent: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        let (strike, agent) = (&strike, &agent);
        // Moved here: if a strike fails, the receiver is dropped, and nobody waits for it.
        thread::scope(move |scope| {
            let Strikes(strikes) = strikes;
            let agents: Vec<_> = (0..agents).map(|number| scope.spawn(move || agent(number))).collect();
            // A receiver is used by one thread, so this thread strikes and another waits for the agents.
            let waiting = scope.spawn(move || {
                let ended: Vec<_> = agents.into_iter().map(|agent| agent.join()).collect();
                let _ = self.strikes.send(None);
                ended
            });
            while let Ok(Some(at)) = strikes.recv() {
                strike(at);
            }
            waiting.join().unwrap().into_iter().map(Result::unwrap).collect()
        })
    }

    /// Ends the servers.
    pub fn end(self) {
        for server in self.servers {
            server.running.into_inner().unwrap().end("TERM");
        }
    }
}

impl FleetServer {
    fn start(machine: Home) -> Self {
        let running = serve(&machine);
        let address = RwLock::new(running.address.clone());
        Self { machine, running: Mutex::new(running), address, in_flight: AtomicUsize::new(0) }
    }
}

fn send(stream: &mut TcpStream, address: &str, headers: &str, body: &str) -> Result<(), Error> {
    let length = body.len();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes())
}

/// A whole answer; a part of one is an error.
fn receive(stream: &mut TcpStream) -> Result<HttpResponse, Error> {
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let cut = || Error::from(ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(cut)?;
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    if length.parse() != Ok(body.len()) {
        return Err(cut());
    }
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok(HttpResponse { status, head, body: body.to_owned() })
}

fn read(answer: &HttpResponse) -> CallAttempt {
    match answer.status {
        // Too many requests, or no answer from the store.
        429 | 503 => {
            let seconds = answer.head.lines().find_map(|line| line.strip_prefix("retry-after: "));
            let seconds = seconds.map_or(0, |seconds| seconds.parse().unwrap());
            return CallAttempt::Refused { after: Duration::from_secs(seconds) };
        }
        status => assert_eq!(status, 200, "{}", answer.body),
    }
    let reply = ToolReply::read(&answer.body);
    let retry = &reply.data["retry"];
    match reply.is_error && retry["kind"].as_str().is_some_and(|kind| kind.starts_with("retryable")) {
        true => CallAttempt::Refused {
            after: Duration::from_millis(retry["afterMs"].as_u64().unwrap_or_default()),
        },
        false => CallAttempt::Answered(Box::new(reply)),
    }
}
