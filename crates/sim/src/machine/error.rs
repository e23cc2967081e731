//! The errors of an invalid machine file: one line that names the file, the key and a valid value.

use thiserror::Error;

/// The error of an invalid machine file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MachineError {
    /// The file is not TOML.
    #[error("{file}: line {line}: {what}; a machine file is TOML, see docs/machines.md")]
    Syntax {
        /// The file, as the caller named it.
        file: String,
        /// The line where the parser stopped, from 1.
        line: usize,
        /// The parser's message.
        what: String,
    },
    /// A required key is missing.
    #[error("{file}: `{key}` is missing; write `{example}`")]
    Missing {
        /// The file.
        file: String,
        /// The key, dotted from the root.
        key: String,
        /// A valid example line.
        example: String,
    },
    /// No code reads this key. It is misspelt, or belongs to another model.
    #[error("{file}: unknown key `{key}`; known here: {known}")]
    Unknown {
        /// The file.
        file: String,
        /// The key, dotted from the root.
        key: String,
        /// The known keys.
        known: String,
    },
    /// The value is invalid.
    #[error("{file}: `{key}`: {what}")]
    Value {
        /// The file.
        file: String,
        /// The key, dotted from the root.
        key: String,
        /// The fault, and a valid value.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_one_line_with_file_and_key() {
        let (file, key) = (String::from("m.toml"), String::from("host.issue"));
        let errors = [
            MachineError::Syntax { file: file.clone(), line: 3, what: "odd".into() },
            MachineError::Missing {
                file: file.clone(),
                key: key.clone(),
                example: "issue = 1".into(),
            },
            MachineError::Unknown { file: file.clone(), key: key.clone(), known: "a, b".into() },
            MachineError::Value { file, key, what: "no unit".into() },
        ];
        for error in errors {
            let line = error.to_string();
            assert!(line.starts_with("m.toml: ") && !line.contains('\n'), "{line}");
        }
    }
}
