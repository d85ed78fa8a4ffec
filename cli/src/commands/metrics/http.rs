//! As much of HTTP/1.1 (RFC 9112) as a scrape needs: one GET on a connection, and one answer.
//!
//! Rules: every peer may be hostile: a request has few bytes and little time, and few connections are served at once.
//! One more takes the place of the one that has kept its request back for longest, so that silent peers keep nobody
//! out; no body is read, and nothing of a request is handed on. Where only this machine can ask, only those are
//! answered who call it by its address or `localhost`: a page of somebody else's, which a browser on this machine
//! shows, may let its own name lead here.

use super::format::Format;
use anyhow::{Context, Result};
use gridmux_mediator::lock::CountedMutex;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Connections that are served at once.
const CONNECTIONS: usize = 64;
/// Most bytes of a request.
const REQUEST_BYTES: usize = 8192;
/// Most header lines of a request.
const HEADERS: usize = 64;
/// The longest time for a request to come, and for its answer to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns what stands at a path, in a format; nothing where nothing stands there.
pub(super) type Pages = dyn Fn(&str, Format) -> Option<Result<String>> + Send + Sync;

/// An address to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Address {
    /// Returns whether other machines may reach it.
    pub(super) fn is_public(&self) -> bool {
        matches!(self, Self::Tcp(address) if !address.ip().is_loopback())
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("unix:") {
            Some("") => Err("the socket's path is missing".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| {
                "give an address with its port, as 127.0.0.1:9400, or unix:PATH".to_owned()
            }),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub(super) enum Server {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A connection.
trait Connection: Send + Sync {
    /// Limits how long the next read, or write, may take.
    fn limit(&self, time: Duration) -> io::Result<()>;
    /// Returns what reads from it and writes to it.
    fn stream(&self) -> Box<dyn Stream + '_>;
    /// Closes it, also for a thread that reads from it.
    fn close(&self);
}

/// A stream that can be read and written.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Connection for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn stream(&self) -> Box<dyn Stream + '_> {
        Box::new(self)
    }

    fn close(&self) {
        // It may be closed already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Connection for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn stream(&self) -> Box<dyn Stream + '_> {
        Box::new(self)
    }

    fn close(&self) {
        // It may be closed already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// The connections that are open, in the order in which they came.
#[derive(Default)]
struct Open(CountedMutex<Vec<OpenConnection>>);

/// One of them.
struct OpenConnection {
    connection: Arc<dyn Connection>,
    /// Whether its request has not come whole.
    is_awaited: bool,
}

impl Open {
    /// Takes a connection in; where all places are taken, the first whose request has not come goes. Returns whether
    /// there is room.
    fn take_in(&self, connection: &Arc<dyn Connection>) -> bool {
        let mut places = self.0.lock();
        if places.len() >= CONNECTIONS {
            let Some(first) = places.iter().position(|place| place.is_awaited) else {
                return false;
            };
            places.remove(first).connection.close();
        }
        places.push(OpenConnection {
            connection: Arc::clone(connection),
            is_awaited: true,
        });
        true
    }

    /// Takes note that a connection's request has come.
    fn hear(&self, connection: &Arc<dyn Connection>) {
        let mut places = self.0.lock();
        let place = places
            .iter_mut()
            .find(|place| Arc::ptr_eq(&place.connection, connection));
        if let Some(place) = place {
            place.is_awaited = false;
        }
    }

    /// Gives a connection's place back.
    fn leave(&self, connection: &Arc<dyn Connection>) {
        let mut places = self.0.lock();
        places.retain(|place| !Arc::ptr_eq(&place.connection, connection));
    }
}

impl Server {
    /// Begins to listen. A socket that a dead process left is replaced, and nothing else is.
    pub(super) fn bind(address: &Address) -> Result<Self> {
        match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address);
                Ok(Self::Tcp(listener.with_context(|| address.to_string())?))
            }
            Address::Unix(path) => {
                let name = || path.display().to_string();
                let is_socket =
                    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
                if is_socket && UnixStream::connect(path).is_err() {
                    fs::remove_file(path).with_context(name)?;
                }
                let listener = UnixListener::bind(path).with_context(name)?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Returns where it listens, with the port that the system chose if it had to.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|error| error.to_string(), |address| address.to_string()),
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns whether it listens at an address that other machines cannot reach and browsers on this one can.
    fn is_local(&self) -> bool {
        match self {
            Self::Tcp(listener) => listener.local_addr().is_ok_and(|at| at.ip().is_loopback()),
            Self::Unix(..) => false,
        }
    }

    /// Answers for ever with what stands in `pages`.
    pub(super) fn run(&self, pages: Arc<Pages>) -> Result<()> {
        let open = Arc::new(Open::default());
        let is_local = self.is_local();
        loop {
            let accepted: io::Result<Arc<dyn Connection>> = match self {
                Self::Tcp(listener) => match listener.accept() {
                    Ok((connection, _)) => Ok(Arc::new(connection)),
                    Err(error) => Err(error),
                },
                Self::Unix(listener, _) => match listener.accept() {
                    Ok((connection, _)) => Ok(Arc::new(connection)),
                    Err(error) => Err(error),
                },
            };
            let connection = match accepted {
                Ok(connection) => connection,
                Err(error) => {
                    wait(&error);
                    continue;
                }
            };
            if !open.take_in(&connection) {
                tracing::debug!("too many answers under way; a connection was closed unheard");
                continue;
            }
            let served = (
                Arc::clone(&pages),
                Arc::clone(&open),
                Arc::clone(&connection),
            );
            let thread = thread::Builder::new().name("connection".into());
            let begun = thread.spawn(move || {
                let (pages, open, connection) = served;
                let heard = || open.hear(&connection);
                if let Err(error) = serve(&*connection, is_local, &heard, &*pages) {
                    tracing::debug!(%error, "connection");
                }
                open.leave(&connection);
            });
            if begun.is_err() {
                open.leave(&connection);
            }
        }
    }
}

/// Lets a moment pass: descriptors may be short.
fn wait(error: &io::Error) {
    tracing::warn!(%error, "accept");
    thread::sleep(Duration::from_millis(100));
}

/// Reads a request, calls `heard` when it has come, and answers it.
fn serve(
    connection: &dyn Connection,
    is_local: bool,
    heard: &dyn Fn(),
    pages: &Pages,
) -> io::Result<()> {
    let mut stream = connection.stream();
    let deadline = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let answer = loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break Answer::plain("408 Request Timeout", "");
        }
        connection.limit(left)?;
        let mut piece = [0; 1024];
        let bytes = match stream.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        request.extend_from_slice(&piece[..bytes]);
        if request.len() > REQUEST_BYTES {
            break Answer::plain("431 Request Header Fields Too Large", "");
        }
        if let Some(answer) = answer(&request, is_local, heard, pages) {
            break answer;
        }
    };
    let text = answer.text();
    let (mut rest, deadline) = (text.as_bytes(), Instant::now() + PATIENCE);
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        connection.limit(left)?;
        let bytes = stream.write(rest)?;
        rest = &rest[bytes..];
    }
    Ok(())
}

/// An answer to a request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: String,
    /// Whether the body itself goes back, and not its length alone.
    is_whole: bool,
}

impl Answer {
    fn plain(status: &'static str, body: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.to_owned(),
            is_whole: true,
        }
    }

    fn text(&self) -> String {
        let Self {
            status,
            content_type,
            body,
            is_whole,
        } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        );
        match is_whole {
            true => head + body,
            false => head,
        }
    }
}

/// Returns the answer to a request, as soon as all of its head is there, and calls `heard` then.
fn answer(request: &[u8], is_local: bool, heard: &dyn Fn(), pages: &Pages) -> Option<Answer> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => heard(),
        Err(_) => return Some(Answer::plain("400 Bad Request", "")),
    }
    let hosts = parsed.headers.iter();
    let mut hosts = hosts.filter(|header| header.name.eq_ignore_ascii_case("host"));
    if is_local && !hosts.all(|host| is_this_machine(host.value)) {
        let why = "ask for it by its address, or as localhost\n";
        return Some(Answer::plain("421 Misdirected Request", why));
    }
    let path = parsed.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let method = parsed.method.unwrap_or_default();
    if !matches!(method, "GET" | "HEAD") {
        return Some(Answer::plain("405 Method Not Allowed", ""));
    }
    let accepts = parsed.headers.iter();
    let accepts = accepts.filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let format = Format::accepted(accepts.map(|header| header.value));
    let mut answer = match pages(path, format) {
        None => Answer::plain("404 Not Found", "metrics are at /metrics\n"),
        Some(Ok(body)) => Answer {
            status: "200 OK",
            content_type: format.content_type(),
            body,
            is_whole: true,
        },
        Some(Err(error)) => {
            tracing::warn!("{error:#}");
            Answer::plain("500 Internal Server Error", "")
        }
    };
    answer.is_whole = method == "GET";
    Some(answer)
}

/// Returns whether a `Host` header names this machine as such: by an address or as `localhost`, with a port or none.
fn is_this_machine(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || bare.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::{Address, Format, answer};

    fn status(request: &str) -> Option<&'static str> {
        status_at(false, request)
    }

    fn status_at(is_local: bool, request: &str) -> Option<&'static str> {
        answer(request.as_bytes(), is_local, &|| (), &pages).map(|answer| answer.status)
    }

    fn pages(path: &str, format: Format) -> Option<anyhow::Result<String>> {
        (path == "/metrics").then(|| Ok(format!("{format:?}")))
    }

    #[test]
    fn where_only_this_machine_can_ask_it_is_called_by_its_address() {
        let at = |host: &str| status_at(true, &format!("GET /metrics HTTP/1.1\r\n{host}\r\n"));
        for good in [
            "",
            "Host: 127.0.0.1:9400\r\n",
            "host: [::1]:9400\r\n",
            "Host: LocalHost\r\n",
        ] {
            assert_eq!(at(good), Some("200 OK"), "{good}");
        }
        for bad in [
            "Host: example.org:9400\r\n",
            "Host: 127.0.0.1.example.org\r\n",
            "Host: localhost\r\nHost: example.org\r\n",
            "Host:\r\n",
        ] {
            assert_eq!(at(bad), Some("421 Misdirected Request"), "{bad}");
        }
        assert_eq!(
            status("GET /metrics HTTP/1.1\r\nHost: gpu1.example.org\r\n\r\n"),
            Some("200 OK"),
            "where others can ask they may have a name for it"
        );
    }

    #[test]
    fn one_path_is_answered_and_everything_else_refused() {
        assert_eq!(
            status("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
            Some("200 OK")
        );
        assert_eq!(status("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), Some("200 OK"));
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), Some("404 Not Found"));
        let refused = Some("405 Method Not Allowed");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), refused);
        assert_eq!(status("\u{16}\u{3}\u{1}\r\n\r\n"), Some("400 Bad Request"));
        assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        let many = "A: b\r\n".repeat(65);
        assert_eq!(
            status(&format!("GET / HTTP/1.1\r\n{many}\r\n")),
            Some("400 Bad Request")
        );
        let head = answer(b"HEAD /metrics HTTP/1.1\r\n\r\n", false, &|| (), &pages);
        let head = head.unwrap().text();
        assert!(
            head.contains("Content-Length: 11\r\n") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
    }

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let asked = b"GET /metrics HTTP/1.1\r\nAccept: text/plain\r\n\r\n";
        let text = answer(asked, false, &|| (), &pages).unwrap();
        assert_eq!(
            (&*text.body, text.content_type),
            ("Text", Format::Text.content_type())
        );
        let asked = b"GET /metrics HTTP/1.1\r\n\r\n";
        let text = answer(asked, false, &|| (), &pages).unwrap();
        assert_eq!(text.content_type, Format::Openmetrics.content_type());
    }

    #[test]
    fn an_address_is_one_of_the_network_or_a_socket() {
        let public = |text: &str| text.parse::<Address>().map(|address| address.is_public());
        assert_eq!(public("127.0.0.1:9400"), Ok(false));
        assert_eq!(public("[::1]:9400"), Ok(false));
        assert_eq!(public("unix:/run/x.sock"), Ok(false));
        assert_eq!(public("0.0.0.0:9400"), Ok(true));
        for wrong in ["9400", "localhost", "unix:", ""] {
            assert!(public(wrong).is_err(), "{wrong}");
        }
    }
}
