//! The settings of a recording, from the options of `tap`.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use duet_rpc::proto::frame::FramingChoice;
use duet_rpc_trace::{
    EXTENSION, Feed, FileOptions, Header, Options, Recorder, Redactions, Timestamp, default_folder,
    session_name,
};

use crate::args::TapArgs;
use crate::console;
use crate::exit::Problem;

/// The number of traces to keep in the default folder.
const KEEP: usize = 100;

/// Everything that a recorder needs to start.
pub(super) struct Recording {
    pub(super) header: Header,
    pub(super) options: Options,
    pub(super) file: FileOptions,
    pub(super) buffer: usize,
    /// The user has named the file.
    is_named: bool,
}

impl Recording {
    /// Opens the file that the user has named, before anything starts. A file that is not a trace is refused. If the
    /// file cannot be opened for another reason, the recorder tries again and reports it: bytes pass all the same.
    pub(super) fn claim(&mut self) -> Result<(), Problem> {
        if !self.is_named {
            return Ok(());
        }
        let wanted = self.file.path.clone();
        let missing = wanted.parent().filter(|it| !it.as_os_str().is_empty() && !it.exists());
        match self.file.claim() {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let file = wanted.display();
                return Err(Problem::usage(format!(
                    "cannot write the trace to {file}: {error}, so it is not replaced; choose another name for --to"
                )));
            }
            Err(_) => {}
            Ok(()) if self.file.path != wanted => console::say(format_args!(
                "another tap writes {}; this trace goes to {}",
                wanted.display(),
                self.file.path.display()
            )),
            Ok(()) => {
                if let Some(folder) = missing {
                    console::say(format_args!("created the folder {}", folder.display()));
                }
            }
        }
        Ok(())
    }

    /// Tells this session from others of this process: the connections of a tap between sockets.
    pub(super) fn number(&mut self) {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        let number = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        self.header.session = format!("{}-{number}", self.header.session);
        let path = &self.file.path;
        let extension = path.extension().map(|it| it.to_string_lossy().into_owned());
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let name = match extension {
            Some(extension) => format!("{stem}-{number}.{extension}"),
            None => format!("{stem}-{number}"),
        };
        self.file.path = path.with_file_name(name);
    }
}

/// The recording of a session with this server.
pub(super) fn recording(args: &TapArgs, command: &[OsString]) -> Result<Recording, Problem> {
    let mut redact = Redactions::default();
    let wrong =
        |error: duet_rpc_trace::BadRedaction| Problem::usage(format!("cannot redact: {error}"));
    args.redact.iter().try_for_each(|rule| redact.add(rule)).map_err(wrong)?;
    args.redact_value.iter().try_for_each(|value| redact.add_value(value)).map_err(wrong)?;

    let now = Timestamp::from(SystemTime::now());
    let word = |word: &OsString| {
        let word = word.to_string_lossy();
        redact.apply_text(&word).unwrap_or_else(|| word.into_owned())
    };
    let words: Vec<_> = command.iter().map(word).collect();
    let program = words.first().map_or("", String::as_str);
    let name = session_name(now, program, std::process::id());
    let mut header = Header::new(&name);
    header.start = now.to_string();
    header.cwd = std::env::current_dir().ok().map(|cwd| cwd.to_string_lossy().into_owned());
    header.pid = Some(std::process::id());
    header.version = concat!("duet-rpc ", env!("CARGO_PKG_VERSION")).to_owned();
    header.max_body = args.max_body;
    header.faults = args.faults.fault.iter().map(ToString::to_string).collect();
    header.seed = (!header.faults.is_empty()).then_some(args.faults.seed);
    header.command = words;
    redact.apply_header(&mut header);

    let mut file = place(args, &name)?;
    file.max_file = args.max_file;
    if let Some(keep) = args.keep {
        file.keep = usize::try_from(keep).ok();
    }
    let mut options = Options::default();
    options.framing = match args.framing.choice() {
        FramingChoice::Fixed(framing) => Some(framing),
        FramingChoice::Auto => None,
    };
    options.max_body = args.max_body.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
    options.redact = redact;
    options.keep_credentials = args.keep_credentials;
    let buffer = usize::try_from(args.buffer).unwrap_or(usize::MAX);
    // In a folder, each session has a name of its own.
    let is_named = args.to.as_ref().is_some_and(|to| *to == file.path);
    Ok(Recording { header, options, file, buffer, is_named })
}

/// The file of a trace.
fn place(args: &TapArgs, name: &str) -> Result<FileOptions, Problem> {
    let name = format!("{name}.{EXTENSION}");
    Ok(match &args.to {
        Some(to) if to.is_dir() || to.to_string_lossy().ends_with('/') => {
            FileOptions::new(to.join(name))
        }
        Some(to) => FileOptions::new(to),
        None => {
            let folder: PathBuf = default_folder().ok_or_else(|| {
                Problem::usage("there is no home directory for the trace: use --to FILE")
            })?;
            let mut file = FileOptions::new(folder.join(name));
            (file.keep, file.own_folder) = (Some(KEEP), true);
            file
        }
    })
}

/// Starts a recorder. Without one, bytes pass all the same.
pub(super) fn start(recording: Recording) -> ([Option<Feed>; 3], Option<Recorder>) {
    let Recording { header, options, file, buffer, .. } = recording;
    match Recorder::start(header, options, file, buffer) {
        Ok((feeds, recorder)) => (feeds.map(Some), Some(recorder)),
        Err(error) => {
            console::say(format_args!("cannot record: {error}"));
            ([None, None, None], None)
        }
    }
}
