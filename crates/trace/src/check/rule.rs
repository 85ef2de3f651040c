//! The faults that a check finds.

/// A fault. Its name is stable: reports and `--allow` use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// Bytes outside of a frame.
    Noise,
    /// A message in another framing than that of the other side.
    FramingMismatch,
    /// A frame that is not JSON, or has a wrong header.
    BrokenFrame,
    /// JSON that is not a JSON-RPC message.
    InvalidMessage,
    /// A request without an answer.
    Unanswered,
    /// A second answer to a request.
    AnsweredTwice,
    /// An answer without a request.
    AnswerToNothing,
    /// An answer to a request that was cancelled, where none may come.
    AnswerAfterCancel,
    /// An answer with the code -32601.
    UnknownMethod,
    /// An answer that took longer than the threshold.
    Slow,
    /// A request with the id of an open request.
    IdInUse,
    /// A message after the end of its stream, or a request that nobody can answer any more.
    AfterEof,
    /// The server failed, or a signal ended it.
    ExitCode,
    /// The server ended too long after the end of its input.
    LateExit,
    /// The server left processes behind.
    LeftBehind,
    /// LSP: a message before `initialize`, or before its answer.
    LspInitializeFirst,
    /// LSP: a second `initialize` or `initialized`.
    LspInitializeTwice,
    /// LSP: a message of the client before `initialized`, or of the server before the answer.
    LspBeforeInitialized,
    /// LSP: a message after `shutdown` that is not `exit`.
    LspAfterShutdown,
    /// LSP: `exit`, or the end of the input, without `shutdown` before.
    LspNoShutdown,
    /// MCP: a message before `initialize`, or before its answer.
    McpInitializeFirst,
    /// MCP: a second `initialize`.
    McpInitializeTwice,
    /// MCP: a message before `notifications/initialized`.
    McpBeforeInitialized,
    /// MCP: an id that was used before, or `null`.
    McpIdReused,
    /// MCP: a batch in a version without batches.
    McpBatch,
    /// MCP: a cancellation of `initialize`.
    McpInitializeCancelled,
}

impl Rule {
    /// Every rule, in the order of the documentation.
    pub const ALL: [Rule; 26] = [
        Rule::Noise,
        Rule::FramingMismatch,
        Rule::BrokenFrame,
        Rule::InvalidMessage,
        Rule::Unanswered,
        Rule::AnsweredTwice,
        Rule::AnswerToNothing,
        Rule::AnswerAfterCancel,
        Rule::UnknownMethod,
        Rule::Slow,
        Rule::IdInUse,
        Rule::AfterEof,
        Rule::ExitCode,
        Rule::LateExit,
        Rule::LeftBehind,
        Rule::LspInitializeFirst,
        Rule::LspInitializeTwice,
        Rule::LspBeforeInitialized,
        Rule::LspAfterShutdown,
        Rule::LspNoShutdown,
        Rule::McpInitializeFirst,
        Rule::McpInitializeTwice,
        Rule::McpBeforeInitialized,
        Rule::McpIdReused,
        Rule::McpBatch,
        Rule::McpInitializeCancelled,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    /// The rule with this name.
    pub fn from_name(name: &str) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// One sentence: the fault.
    pub fn summary(self) -> &'static str {
        self.texts().1
    }

    /// The next step for a person who has this fault.
    pub fn advice(self) -> &'static str {
        self.texts().2
    }

    fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Rule::Noise => (
                "noise",
                "Bytes outside of a frame.",
                "Print to stderr: stdout carries messages and nothing else.",
            ),
            Rule::FramingMismatch => (
                "framing-mismatch",
                "A message in another framing than that of the other side.",
                "Give both sides the same framing, for example with the server's option for it.",
            ),
            Rule::BrokenFrame => (
                "broken-frame",
                "A frame is not JSON, has a wrong header, or ended early.",
                "Check that Content-Length counts bytes, and that one writer at a time writes.",
            ),
            Rule::InvalidMessage => (
                "invalid-message",
                "A frame has JSON that is not a JSON-RPC message.",
                "Send objects with a method, or with an id and either a result or an error.",
            ),
            Rule::Unanswered => (
                "unanswered",
                "A request has no answer.",
                "Answer each request once, even if it fails or is cancelled.",
            ),
            Rule::AnsweredTwice => {
                ("answered-twice", "A request has two answers.", "Answer each request once.")
            }
            Rule::AnswerToNothing => (
                "answer-to-nothing",
                "An answer has an id that no request has.",
                "Copy the id of the request, with its JSON type.",
            ),
            Rule::AnswerAfterCancel => (
                "answer-after-cancel",
                "An answer came long after notifications/cancelled.",
                "Do not answer a request after its cancellation arrived.",
            ),
            Rule::UnknownMethod => (
                "unknown-method",
                "A request was answered with the code -32601, method not found.",
                "Check the name of the method, and the capabilities of the other side.",
            ),
            Rule::Slow => (
                "slow",
                "An answer took longer than --slow.",
                "Look at the messages between the request and its answer.",
            ),
            Rule::IdInUse => (
                "id-in-use",
                "A request has the id of a request that is still open.",
                "Count ids up.",
            ),
            Rule::AfterEof => (
                "after-eof",
                "A message came after EOF, or a request that nobody can answer.",
                "Stop sending requests when stdin ends.",
            ),
            Rule::ExitCode => (
                "exit-code",
                "The server exited with another code than 0, or by a signal.",
                "Look at the last lines of stderr: duet-rpc trace show --where dir:err FILE",
            ),
            Rule::LateExit => (
                "late-exit",
                "The server exited more than 2 s after its input ended.",
                "Exit when stdin ends.",
            ),
            Rule::LeftBehind => (
                "left-behind",
                "The server left processes behind.",
                "End child processes before the server exits.",
            ),
            Rule::LspInitializeFirst => (
                "lsp-initialize-first",
                "LSP: the first message of the client is not initialize.",
                "Send initialize before anything else.",
            ),
            Rule::LspInitializeTwice => (
                "lsp-initialize-twice",
                "LSP: initialize or initialized was sent twice.",
                "Send each of them once.",
            ),
            Rule::LspBeforeInitialized => (
                "lsp-before-initialized",
                "LSP: a message came before the handshake was complete.",
                "Wait for the answer to initialize, then send initialized first.",
            ),
            Rule::LspAfterShutdown => (
                "lsp-after-shutdown",
                "LSP: the client sent another message than exit after shutdown.",
                "Send only exit after shutdown.",
            ),
            Rule::LspNoShutdown => (
                "lsp-no-shutdown",
                "LSP: the session ended without shutdown and exit.",
                "Send shutdown, wait for its answer, then send exit.",
            ),
            Rule::McpInitializeFirst => (
                "mcp-initialize-first",
                "MCP: the first message of the client is not initialize.",
                "Send initialize before anything else.",
            ),
            Rule::McpInitializeTwice => {
                ("mcp-initialize-twice", "MCP: initialize was sent twice.", "Send initialize once.")
            }
            Rule::McpBeforeInitialized => (
                "mcp-before-initialized",
                "MCP: a message came before the handshake was complete.",
                "Wait for the answer to initialize, then send notifications/initialized.",
            ),
            Rule::McpIdReused => (
                "mcp-id-reused",
                "MCP: a request has an id that was used before, or null.",
                "Count ids up.",
            ),
            Rule::McpBatch => (
                "mcp-batch",
                "MCP: a batch, in a version of the protocol without batches.",
                "Send each message alone since version 2025-06-18.",
            ),
            Rule::McpInitializeCancelled => (
                "mcp-initialize-cancelled",
                "MCP: the client cancelled initialize.",
                "Close the connection instead.",
            ),
        }
    }
}
