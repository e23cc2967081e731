//! Reads a machine file key by key. So every error names its key, no key is left unread, and every
//! constant is stored with its source.
//!
//! A constant is a table with two keys: `startup = { value = "3.5 us", source = "004 §3.2" }`. The
//! begin of the source says how far to trust the constant, see [`Origin`].

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use toml::{Table, Value};

use super::MachineError;
use crate::network::Rate;
use hikyaku_nic::time::Time;
use hikyaku_nic::units;

/// Limits of constants. No machine exceeds them, and with them no product of constants overflows.
const MOST_TIME: u64 = 1_000_000_000_000;
const MOST_BYTES: u64 = 1 << 30;
const MOST_COUNT: u64 = 1_000_000;
const RATES: RangeInclusive<u64> = 1_000..=1_000_000_000_000_000;

/// The origin of a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Stated by a paper, a standard or a vendor.
    Cited,
    /// Chosen so that the model meets one printed number. That number then counts as calibration,
    /// not as a result. The source begins with `fitted to`.
    Fitted,
    /// No source states it. The text begins with `assumed` and gives the reason for the value.
    Assumed,
}

/// A constant of a machine, as listed by `hikyaku machine show` and the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineConstant {
    /// The key, dotted from the root.
    pub key: String,
    /// The value as the file writes it.
    pub value: String,
    /// The paper and the place in it, the number to which it was fitted, or the reason for the
    /// assumption.
    pub source: String,
    /// The kind of source, which says how far to trust the value.
    pub origin: Origin,
}

impl MachineConstant {
    /// The value times `factor`, in the form of a file: `3.5 us` doubled is `7 us`. A whole number
    /// is rounded up to a whole number. `None` if the result equals the value.
    pub fn scaled(&self, factor: f64) -> Option<String> {
        let digits = |at: char| !at.is_ascii_digit() && at != '.' && at != '_';
        let unit = self.value.find(digits).unwrap_or(self.value.len());
        let (number, unit) = self.value.split_at(unit);
        let old: f64 = number.replace('_', "").parse().ok()?;
        let scaled = match unit.trim() {
            // Bytes, clocks and slots are whole numbers. Clocks and slots have no unit.
            "" | "B" => (old * factor).ceil(),
            _ => old * factor,
        };
        (scaled != old).then(|| format!("{scaled}{unit}"))
    }

    fn origin_of(source: &str) -> Origin {
        match source {
            source if source.starts_with("fitted to") => Origin::Fitted,
            source if source.starts_with("assumed") => Origin::Assumed,
            _ => Origin::Cited,
        }
    }
}

/// Replaces the value of the constant `key`, dotted from the root: a whole number by a whole
/// number, a quantity with a unit by another one. Also replaces a plain word of the file, such as
/// the shape of the network.
pub(super) fn replace(table: &mut Table, key: &str, value: &str) -> Result<(), &'static str> {
    let mut parts = key.split('.');
    let first = parts.next().and_then(|part| table.get_mut(part));
    let named = parts.try_fold(first, |at, part| Some(at?.as_table_mut()?.get_mut(part)));
    let old = match named.flatten() {
        Some(Value::Table(constant)) => constant.get_mut("value"),
        plain => plain,
    };
    let old = old.ok_or("is no constant of this file")?;
    *old = match old {
        Value::Integer(_) => Value::Integer(value.parse().map_err(|_| "is a whole number")?),
        _ => Value::String(value.to_owned()),
    };
    Ok(())
}

/// A key or a text with control characters, which a report or an error would pass on to a terminal.
pub(super) fn unprintable(table: &Table) -> Option<&str> {
    fn within(value: &Value) -> Option<&str> {
        match value {
            Value::String(text) => {
                Some(text.as_str()).filter(|text| text.contains(char::is_control))
            }
            Value::Array(values) => values.iter().find_map(within),
            Value::Table(table) => unprintable(table),
            _ => None,
        }
    }
    let named = |key: &&String| key.contains(char::is_control);
    let key = table.keys().find(named).map(String::as_str);
    key.or_else(|| table.values().find_map(within))
}

/// The state shared by all sections of one file.
#[derive(Debug, Default)]
pub(crate) struct SectionBook {
    file: String,
    constants: RefCell<Vec<MachineConstant>>,
}

impl SectionBook {
    pub(crate) fn new(file: &str) -> SectionBook {
        SectionBook { file: file.to_owned(), ..SectionBook::default() }
    }

    /// The constants that were read, ordered by section (network, interface, host) and then by
    /// name.
    pub(crate) fn into_constants(self) -> Vec<MachineConstant> {
        let mut constants = self.constants.into_inner();
        let section = |constant: &MachineConstant| {
            ["network.", "interface.", "host."]
                .iter()
                .position(|name| constant.key.starts_with(name))
        };
        constants.sort_by(|one, other| (section(one), &one.key).cmp(&(section(other), &other.key)));
        // A constant that two models read is listed once.
        constants.dedup();
        constants
    }
}

/// One table of the file. Reading a key marks it, and [`Section::finish`] refuses unmarked keys.
#[derive(Debug)]
pub(crate) struct Section<'t> {
    book: &'t SectionBook,
    /// The dotted path, with a dot at its end. Empty for the root.
    path: String,
    table: &'t Table,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'t> Section<'t> {
    pub(crate) fn root(book: &'t SectionBook, table: &'t Table) -> Section<'t> {
        Section { book, path: String::new(), table, read: RefCell::default() }
    }

    /// The table `key`.
    pub(crate) fn section(&self, key: &'static str) -> Result<Section<'t>, MachineError> {
        match self.get(key) {
            Some(Value::Table(table)) => {
                let path = format!("{}{key}.", self.path);
                Ok(Section { book: self.book, path, table, read: RefCell::default() })
            }
            Some(_) => Err(self.refuse(key, format!("is not a table; write `[{key}]`"))),
            None => Err(self.missing(key, &format!("[{}{key}]", self.path))),
        }
    }

    /// A plain word.
    pub(crate) fn text(&self, key: &'static str) -> Result<&'t str, MachineError> {
        match self.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(self.refuse(key, "is not a text, or an empty one")),
            None => Err(self.missing(key, &format!("{key} = \"...\""))),
        }
    }

    /// A list of plain whole numbers, each at least one, such as the extent of a topology.
    pub(crate) fn extent(&self, key: &'static str) -> Result<Vec<u32>, MachineError> {
        let wrong = || self.refuse(key, "is not a list of whole numbers from 1, as `[4, 8, 8]`");
        let Some(value) = self.get(key) else {
            return Err(self.missing(key, &format!("{key} = [4, 8, 8]")));
        };
        let numbers = value.as_array().ok_or_else(wrong)?;
        let number = |value: &Value| {
            let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
            number.filter(|number| *number > 0)
        };
        let extent: Option<Vec<u32>> = numbers.iter().map(number).collect();
        extent.filter(|extent| !extent.is_empty()).ok_or_else(wrong)
    }

    /// A plain whole number within `range`.
    pub(crate) fn whole(
        &self,
        key: &'static str,
        range: RangeInclusive<u32>,
    ) -> Result<u32, MachineError> {
        let (low, high) = (range.start(), range.end());
        let wrong = || self.refuse(key, format!("is not a whole number from {low} to {high}"));
        match self.get(key) {
            Some(value) => {
                let number = value.as_integer().and_then(|number| u32::try_from(number).ok());
                number.filter(|number| range.contains(number)).ok_or_else(wrong)
            }
            None => Err(self.missing(key, &format!("{key} = {low}"))),
        }
    }

    /// Reads a constant time.
    pub(crate) fn time(&self, key: &'static str) -> Result<Time, MachineError> {
        let time = |text: &str| units::time(text).map(Time::picoseconds);
        let within = (1..=MOST_TIME, "1 ps to 1 s");
        self.measured(key, "3.5 us", time, within).map(Time::from_picoseconds)
    }

    /// Reads a constant rate.
    pub(crate) fn rate(&self, key: &'static str) -> Result<Rate, MachineError> {
        let rate = self.measured(key, "300 MB/s", units::rate, (RATES, "1 kB/s to 1000000 GB/s"));
        rate.map(|rate| Rate::bytes_per_second(rate as f64))
    }

    /// Reads a constant size in bytes.
    pub(crate) fn bytes(&self, key: &'static str) -> Result<u64, MachineError> {
        self.measured(key, "256 B", units::size, (1..=MOST_BYTES, "1 B to 1 GiB"))
    }

    /// Reads a constant number without unit: steps, clocks, queues.
    pub(crate) fn count(&self, key: &'static str) -> Result<u64, MachineError> {
        let (value, source) = self.constant(key, "12")?;
        let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
        let Some(number) = number.filter(|number| *number <= MOST_COUNT) else {
            let range = format!("`{value}` is not a whole number from 0 to {MOST_COUNT}");
            return Err(self.refuse(key, range));
        };
        self.keep(key, number.to_string(), source);
        Ok(number)
    }

    /// Refuses keys that no code has read.
    pub(crate) fn finish(self) -> Result<(), MachineError> {
        let read = self.read.borrow();
        match self.table.keys().find(|key| !read.contains(key.as_str())) {
            None => Ok(()),
            Some(key) => Err(MachineError::Unknown {
                file: self.book.file.clone(),
                key: format!("{}{key}", self.path),
                known: read.iter().copied().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    /// An error about the value of `key`.
    pub(crate) fn refuse(&self, key: &str, what: impl Into<String>) -> MachineError {
        MachineError::Value {
            file: self.book.file.clone(),
            key: format!("{}{key}", self.path),
            what: what.into(),
        }
    }

    fn measured(
        &self,
        key: &'static str,
        example: &str,
        read: impl Fn(&str) -> Result<u64, String>,
        (range, in_words): (RangeInclusive<u64>, &str),
    ) -> Result<u64, MachineError> {
        let (value, source) = self.constant(key, &format!("\"{example}\""))?;
        let Some(text) = value.as_str() else {
            return Err(self.refuse(key, format!("`{value}` has no unit; write \"{example}\"")));
        };
        let number = read(text).map_err(|why| self.refuse(key, why))?;
        if number == 0 {
            return Err(self.refuse(key, format!("`{text}` is zero; write \"{example}\"")));
        }
        if !range.contains(&number) {
            return Err(self.refuse(key, format!("`{text}` is not from {in_words}")));
        }
        self.keep(key, text.to_owned(), source);
        Ok(number)
    }

    /// The two parts of a constant: its value and its source.
    fn constant(
        &self,
        key: &'static str,
        example: &str,
    ) -> Result<(&'t Value, &'t str), MachineError> {
        let line = format!("{key} = {{ value = {example}, source = \"...\" }}");
        let table = match self.get(key) {
            None => return Err(self.missing(key, &line)),
            Some(Value::Table(table)) => table,
            Some(_) => return Err(self.refuse(key, format!("has no source; write `{line}`"))),
        };
        if let Some(other) = table.keys().find(|key| *key != "value" && *key != "source") {
            return Err(MachineError::Unknown {
                file: self.book.file.clone(),
                key: format!("{}{key}.{other}", self.path),
                known: "value, source".into(),
            });
        }
        let source = table.get("source").and_then(Value::as_str).map_or("", str::trim);
        match (table.get("value"), source) {
            (None, _) => Err(self.refuse(key, format!("has no value; write `{line}`"))),
            (_, "") => Err(self.refuse(key, format!("has no source; write `{line}`"))),
            (Some(value), source) => Ok((value, source)),
        }
    }

    fn keep(&self, key: &str, value: String, source: &str) {
        let key = format!("{}{key}", self.path);
        let origin = MachineConstant::origin_of(source);
        let constant = MachineConstant { key, value, source: source.to_owned(), origin };
        self.book.constants.borrow_mut().push(constant);
    }

    fn get(&self, key: &'static str) -> Option<&'t Value> {
        self.read.borrow_mut().insert(key);
        self.table.get(key)
    }

    fn missing(&self, key: &str, example: &str) -> MachineError {
        MachineError::Missing {
            file: self.book.file.clone(),
            key: format!("{}{key}", self.path),
            example: example.to_owned(),
        }
    }
}
