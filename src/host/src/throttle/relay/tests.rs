use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::super::limit::InvalidLimit;
use super::super::pipe::TAIL;
use super::*;

/// A rate of the tests, in bytes a second, and what is passed at it.
const RATE: u64 = 1 << 20;

/// What one pipe of the kernel holds, and what is read from one at once.
const HELD: usize = 64 << 10;

/// A clock that runs while the gate waits, and at no other time; and the limit by that clock.
struct Simulated {
    now: Mutex<Duration>,
    rate: fn(Duration) -> Option<u64>,
}

impl Pace for Simulated {
    fn now(&self) -> Duration {
        *self.now.lock().unwrap()
    }

    fn sleep(&self, time: Duration) {
        *self.now.lock().unwrap() += time;
    }

    fn rate(&self) -> Result<Option<NonZeroU64>, InvalidLimit> {
        Ok((self.rate)(self.now()).and_then(NonZeroU64::new))
    }
}

/// The same gate for the pipes and for the test.
#[derive(Clone)]
struct Shared(Arc<Simulated>);

impl Pace for Shared {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep(&self, time: Duration) {
        self.0.sleep(time);
    }

    fn rate(&self) -> Result<Option<NonZeroU64>, InvalidLimit> {
        self.0.rate()
    }
}

/// So much time has passed, but for rounding.
fn assert_took(pace: &Shared, least: Duration) {
    let took = pace.now();
    assert!(
        took >= least && took < least + Duration::from_micros(1),
        "{took:?}"
    );
}

fn simulated(rate: fn(Duration) -> Option<u64>) -> Shared {
    Shared(Arc::new(Simulated {
        now: Mutex::default(),
        rate,
    }))
}

/// A clock that stands: a wait is reported, and lasts for ever.
struct Held {
    waits: Sender<()>,
}

impl Pace for Held {
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, _: Duration) {
        self.waits.send(()).unwrap();
        loop {
            thread::park();
        }
    }

    fn rate(&self) -> Result<Option<NonZeroU64>, InvalidLimit> {
        Ok(NonZeroU64::new(RATE))
    }
}

/// A relay between the ends of a library and of skopeo.
struct Relay {
    library: OwnedFd,
    skopeo: OwnedFd,
    running: JoinHandle<Result<(), Error>>,
}

impl Relay {
    fn start<P: Pace + 'static>(pace: P) -> Self {
        let (library, ours) = sockets();
        let (skopeo, theirs) = sockets();
        let gate = Arc::new(Gate::new(pace));
        let running = thread::spawn(move || relay(&Arc::new(ours), &Arc::new(theirs), &gate));
        Self {
            library,
            skopeo,
            running,
        }
    }

    /// skopeo answers with a pipe; its writing end, and the reading end that the library gets.
    fn pipe(&self) -> (File, File) {
        let (data, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        answer(&self.skopeo, "a blob", vec![data]);
        let got = receive(&self.library).unwrap().unwrap();
        assert_eq!(got.bytes, b"a blob");
        let [reader] = <[OwnedFd; 1]>::try_from(got.descriptors).unwrap();
        (writer.into(), reader.into())
    }

    /// skopeo ends, and the relay with it.
    fn end(self) {
        drop(self.skopeo);
        self.running.join().unwrap().unwrap();
    }
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let kind = SocketType::SEQPACKET;
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
}

fn answer(socket: &OwnedFd, text: &str, descriptors: Vec<OwnedFd>) {
    let bytes = text.as_bytes().to_vec();
    send(socket, &Message { bytes, descriptors }).unwrap();
}

/// Bytes in which a lost, repeated or misplaced part shows.
fn content(length: usize, seed: usize) -> Vec<u8> {
    let number = |at: usize| (at / 251).wrapping_mul(31) ^ at ^ seed;
    (0..length).map(|at| number(at).to_le_bytes()[0]).collect()
}

fn write(mut to: File, bytes: Vec<u8>) -> JoinHandle<()> {
    thread::spawn(move || to.write_all(&bytes).unwrap())
}

fn read(mut from: File) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn messages_pass_in_both_directions_and_only_the_first_descriptor_is_replaced() {
    let relay = Relay::start(simulated(|_| None));
    for text in ["GetBlob", &"x".repeat(32 << 10)] {
        answer(&relay.library, text, Vec::new());
        let got = receive(&relay.skopeo).unwrap().unwrap();
        assert_eq!(
            (got.bytes.as_slice(), got.descriptors.len()),
            (text.as_bytes(), 0)
        );
        answer(&relay.skopeo, text, Vec::new());
        let got = receive(&relay.library).unwrap().unwrap();
        assert_eq!(
            (got.bytes.as_slice(), got.descriptors.len()),
            (text.as_bytes(), 0)
        );
    }
    let (data, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (errors, _writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let inode = |fd: &OwnedFd| {
        File::from(fd.try_clone().unwrap())
            .metadata()
            .unwrap()
            .ino()
    };
    let (skopeos, error) = (inode(&data), inode(&errors));
    answer(&relay.skopeo, "a raw blob", vec![data, errors]);
    let got = receive(&relay.library).unwrap().unwrap().descriptors;
    assert_ne!(inode(&got[0]), skopeos);
    assert_eq!((inode(&got[1]), got.len()), (error, 2));
    drop(writer);
    relay.end();
}

#[test]
fn a_pipe_passes_whole_in_the_time_that_the_limit_asks_for() {
    let pace = simulated(|_| Some(RATE));
    let relay = Relay::start(pace.clone());
    let (writer, reader) = relay.pipe();
    let bytes = content(3 << 20, 7);
    let writing = write(writer, bytes.clone());
    assert!(read(reader) == bytes, "content differs");
    writing.join().unwrap();
    relay.end();
    assert_took(&pace, Duration::from_secs(3));
}

#[test]
fn all_pipes_together_have_the_limit() {
    let pace = simulated(|_| Some(RATE));
    let relay = Relay::start(pace.clone());
    let running: Vec<_> = (0..3)
        .map(|number| {
            let (writer, reader) = relay.pipe();
            let bytes = content(1 << 20, number);
            let writing = write(writer, bytes.clone());
            let reading = thread::spawn(move || read(reader) == bytes);
            (writing, reading)
        })
        .collect();
    for (writing, reading) in running {
        writing.join().unwrap();
        assert!(reading.join().unwrap(), "content differs");
    }
    relay.end();
    assert_took(&pace, Duration::from_secs(3));
}

#[test]
fn a_limit_that_changes_or_ends_counts_for_what_is_under_way() {
    // Half a second at the rate, half at twice the rate, then without a limit.
    let pace = simulated(|now| match now.as_millis() {
        0..500 => Some(RATE),
        500..1000 => Some(2 * RATE),
        _ => None,
    });
    let relay = Relay::start(pace.clone());
    let (writer, reader) = relay.pipe();
    let bytes = content(64 << 20, 1);
    let writing = write(writer, bytes.clone());
    assert!(read(reader) == bytes, "content differs");
    writing.join().unwrap();
    relay.end();
    // The limit is read every quarter of a second.
    let took = pace.now();
    let expected = Duration::from_secs(1)..Duration::from_millis(1600);
    assert!(expected.contains(&took), "{took:?}");
}

#[test]
fn skopeo_cannot_write_more_than_its_pipe_holds_while_the_gate_waits() {
    let (waits, waiting) = channel();
    let relay = Relay::start(Held { waits });
    let (mut writer, reader) = relay.pipe();
    writer.write_all(&[1; 100]).unwrap();
    waiting.recv().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    let mut written = 100;
    let full = loop {
        match writer.write(&[1; 4096]) {
            Ok(length) => written += length,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert!(written <= 100 + HELD, "{written}");
    // Nothing passed.
    fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
    let mut reader = reader;
    let nothing = reader.read(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn skopeo_finds_that_the_library_closed_a_pipe() {
    let relay = Relay::start(simulated(|_| Some(RATE)));
    let (mut writer, reader) = relay.pipe();
    drop(reader);
    let mut written = 0;
    let gone = loop {
        match writer.write(&[0; 4096]) {
            Ok(length) => written += length,
            Err(error) => break error,
        }
    };
    assert_eq!(gone.kind(), io::ErrorKind::BrokenPipe);
    assert!(written <= TAIL + 4 * HELD, "{written}");
    relay.end();
}

#[test]
fn what_follows_an_archive_is_read_so_that_skopeo_comes_to_the_end() {
    // An image of this size has an index that no pipe holds.
    const ARCHIVE: usize = 200 << 20;
    const INDEX: usize = 8 << 20;
    let relay = Relay::start(simulated(|_| None));
    let (writer, mut reader) = relay.pipe();
    let (written, writing) = channel();
    thread::spawn(move || {
        let mut writer = writer;
        let part = vec![7; 1 << 20];
        let all = (0..(ARCHIVE + INDEX) >> 20).try_for_each(|_| writer.write_all(&part));
        written.send(all).unwrap();
    });
    // The library reads to the end of the archive, and no further.
    let mut part = vec![0; 1 << 20];
    for _ in 0..ARCHIVE >> 20 {
        reader.read_exact(&mut part).unwrap();
    }
    drop(reader);
    writing.recv().unwrap().unwrap();
    relay.end();
}

#[test]
fn the_end_of_either_side_reaches_the_other_and_what_was_sent_still_passes() {
    let relay = Relay::start(simulated(|_| Some(RATE)));
    let (mut writer, reader) = relay.pipe();
    writer.write_all(&[3; 1000]).unwrap();
    drop(writer);
    let Relay {
        library,
        skopeo,
        running,
    } = relay;
    drop(library);
    assert!(receive(&skopeo).unwrap().is_none());
    // An answer that the library does not wait for any more is no error.
    answer(&skopeo, "late", Vec::new());
    drop(skopeo);
    running.join().unwrap().unwrap();
    assert_eq!(read(reader), [3; 1000]);
}
