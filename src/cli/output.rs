//! What commands print. Results go to standard output, everything else to standard error.

use std::io::{self, IsTerminal, Write};

use super::CliError;

/// Prints a result and a line end, at once.
///
/// Errors: [`CliError::OutputClosed`] when the reader has gone, as `head` does.
pub fn line(text: &str) -> Result<(), CliError> {
    write_line(&mut io::stdout().lock(), text)
}

/// Prints the text of a page. A terminal gets it without control characters: a page must not be able to drive it.
pub fn page_text(text: &str) -> Result<(), CliError> {
    if io::stdout().is_terminal() { line(&without_control(text)) } else { line(text) }
}

/// Tells the person something. That nobody reads it changes nothing.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", without_control(text));
}

fn write_line(to: &mut impl Write, text: &str) -> Result<(), CliError> {
    writeln!(to, "{text}").and_then(|()| to.flush()).map_err(|source| match source.kind() {
        io::ErrorKind::BrokenPipe => CliError::OutputClosed,
        _ => CliError::Output { source },
    })
}

/// Drops control characters except line ends and tabs, such as the escape that begins a terminal sequence.
pub fn without_control(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// Text from elsewhere as part of one line: no control characters, white space folded.
pub fn one_line(text: &str) -> String {
    let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
    without_control(&folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_failure() {
        let outcome = write_line(&mut Gone, "text");
        assert!(matches!(&outcome, Err(CliError::OutputClosed)));
        assert_eq!(outcome.unwrap_err().exit_code(), 0);
    }

    #[test]
    fn text_from_elsewhere_cannot_drive_a_terminal() {
        assert_eq!(without_control("a\u{1b}[31mred\u{9b}2J\r\n\tend"), "a[31mred2J\n\tend");
        assert_eq!(one_line(" two\n lines\u{1b}]0;x\u{7} "), "two lines]0;x");
    }
}
