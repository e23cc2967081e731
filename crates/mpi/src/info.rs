//! Info objects: pairs of strings in the order in which they were set (MPI 5.0 chapter 10).
//!
//! Any thread may use them at any time, whatever the level of thread support, even while another
//! thread is in a call of MPI. So they have their own locks.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::dialect::{Dialect, Handle, Object};
use crate::failure::{Class, Failure};
use crate::raw::{HandleAt, Out, TextAt, Texts};
use crate::runtime::{Mpi, lock};

/// Maximum lengths of keys and values, without the terminating 0.
const MAX_KEY: usize = 255;
const MAX_VALUE: usize = 1023;

/// An info object.
#[derive(Debug, Default)]
pub struct Info {
    pairs: Mutex<Vec<(OsString, OsString)>>,
}

impl Clone for Info {
    fn clone(&self) -> Info {
        Info { pairs: Mutex::new(self.pairs().clone()) }
    }
}

impl Info {
    /// An object with these pairs.
    pub(crate) fn of(pairs: &[(&str, OsString)]) -> Info {
        let pairs =
            pairs.iter().map(|(key, value)| (OsString::from(*key), value.clone())).collect();
        Info { pairs: Mutex::new(pairs) }
    }

    fn pairs(&self) -> MutexGuard<'_, Vec<(OsString, OsString)>> {
        lock(&self.pairs)
    }

    /// Adds the pairs of another object, if there is one.
    pub(crate) fn take_from(&self, other: Option<&Info>) {
        let Some(other) = other else { return };
        let pairs = other.pairs().clone();
        for (key, value) in pairs {
            self.set(key, value);
        }
    }

    pub(crate) fn set(&self, key: OsString, value: OsString) {
        let mut pairs = self.pairs();
        match pairs.iter_mut().find(|(other, _)| *other == key) {
            Some(pair) => pair.1 = value,
            None => pairs.push((key, value)),
        }
    }

    pub(crate) fn get(&self, key: impl AsRef<OsStr>) -> Option<OsString> {
        let pairs = self.pairs();
        let found = pairs.iter().find(|(other, _)| other == key.as_ref());
        found.map(|(_, value)| value.clone())
    }
}

impl<D: Dialect> Mpi<D> {
    /// The info object of a handle; `None` for the null handle.
    pub fn info(&self, handle: D::Handle) -> Result<Option<Arc<Info>>, Failure> {
        let number = D::number(Object::Info, handle);
        match number {
            Handle::INFO_NULL => Ok(None),
            Handle::INFO_ENV => Ok(Some(Arc::new(self.environment(&command_line())))),
            other => match lock(&self.state.infos).get(other) {
                Some(info) => Ok(Some(info)),
                None => Err(self.no_such(Object::Info, other)),
            },
        }
    }

    /// Gives an info object a handle.
    pub(crate) fn add_info(&self, info: Info, into: &HandleAt<D>) -> Result<(), Failure> {
        into.set(lock(&self.state.infos).add(Arc::new(info))?);
        Ok(())
    }

    /// The known facts about the start of this program (MPI 5.0 §11.2.1).
    fn environment(&self, words: &[OsString]) -> Info {
        let command = words.first().cloned().unwrap_or_default();
        let arguments = words.get(1..).unwrap_or_default().join(OsStr::new(" "));
        let folder = std::env::current_dir().unwrap_or_default().into_os_string();
        // Before MPI_Init the launcher's variable has the number of ranks.
        let said = || std::env::var("HIKYAKU_SIZE").unwrap_or_default();
        let size = self.state.joined.get().map_or_else(said, |(_, size)| size.to_string());
        let pairs = [
            ("command", command),
            ("argv", arguments),
            ("maxprocs", size.into()),
            ("arch", std::env::consts::ARCH.into()),
            ("wdir", folder),
        ];
        let known = |(_, value): &&(&str, OsString)| !value.is_empty() && value.len() <= MAX_VALUE;
        Info::of(&pairs.iter().filter(known).cloned().collect::<Vec<_>>())
    }

    /// MPI_Info_create.
    pub fn info_create(&self, into: HandleAt<D>) -> Result<(), Failure> {
        self.add_info(Info::default(), &into)
    }

    /// MPI_Info_create_env.
    pub fn info_create_env(
        &self,
        count: i32,
        words: Texts,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let words = words.all(crate::raw::length(count, "argc")?, "argv")?;
        let words = if words.is_empty() { command_line() } else { words };
        self.add_info(self.environment(&words), &into)
    }

    /// MPI_Info_dup.
    pub fn info_dup(&self, info: Option<Arc<Info>>, into: HandleAt<D>) -> Result<(), Failure> {
        self.add_info((*needed(info)?).clone(), &into)
    }

    /// MPI_Info_free.
    pub fn info_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        if lock(&self.state.infos).remove(number).is_none() {
            return Err(self.no_such(Object::Info, number));
        }
        handle.set_null();
        Ok(())
    }

    /// MPI_Info_set.
    pub fn info_set(
        &self,
        info: Option<Arc<Info>>,
        key: OsString,
        value: OsString,
    ) -> Result<(), Failure> {
        let key = checked(key)?;
        if value.is_empty() || value.len() > MAX_VALUE {
            let text = format!("a value has 1 to {MAX_VALUE} bytes, and this one {}", value.len());
            return Err(Failure::new(Class::InfoValue, text).named("value"));
        }
        needed(info)?.set(key, value);
        Ok(())
    }

    /// MPI_Info_delete.
    pub fn info_delete(&self, info: Option<Arc<Info>>, key: OsString) -> Result<(), Failure> {
        let (info, key) = (needed(info)?, checked(key)?);
        let mut pairs = info.pairs();
        let at = pairs.iter().position(|(other, _)| *other == key);
        let at = at.ok_or_else(|| {
            Failure::new(Class::InfoNokey, format!("there is no key `{}`", key.display()))
        })?;
        pairs.remove(at);
        Ok(())
    }

    /// MPI_Info_get, replaced in MPI 4.0 by [`Mpi::info_get_string`].
    pub fn info_get(
        &self,
        info: Option<Arc<Info>>,
        key: OsString,
        room: i32,
        value: TextAt,
        flag: Out<i32>,
    ) -> Result<(), Failure> {
        let found = needed(info)?.get(checked(key)?);
        let room = crate::raw::length(room, "valuelen")?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            value.set(&found, room + 1)?;
        }
        Ok(())
    }

    /// MPI_Info_get_valuelen, replaced in MPI 4.0 by [`Mpi::info_get_string`].
    pub fn info_get_valuelen(
        &self,
        info: Option<Arc<Info>>,
        key: OsString,
        length: Out<i32>,
        flag: Out<i32>,
    ) -> Result<(), Failure> {
        let found = needed(info)?.get(checked(key)?);
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            length.set(found.len() as i32);
        }
        Ok(())
    }

    /// MPI_Info_get_string.
    pub fn info_get_string(
        &self,
        info: Option<Arc<Info>>,
        key: OsString,
        room: Out<i32>,
        value: TextAt,
        flag: Out<i32>,
    ) -> Result<(), Failure> {
        let found = needed(info)?.get(checked(key)?);
        let length = crate::raw::length(room.get(), "buflen")?;
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            value.set(&found, length)?;
            room.set(found.len() as i32 + 1);
        }
        Ok(())
    }

    /// MPI_Info_get_nkeys.
    pub fn info_get_nkeys(&self, info: Option<Arc<Info>>, count: Out<i32>) -> Result<(), Failure> {
        count.set(needed(info)?.pairs().len() as i32);
        Ok(())
    }

    /// MPI_Info_get_nthkey.
    pub fn info_get_nthkey(
        &self,
        info: Option<Arc<Info>>,
        number: i32,
        key: TextAt,
    ) -> Result<(), Failure> {
        let info = needed(info)?;
        let pairs = info.pairs();
        let found = usize::try_from(number).ok().and_then(|at| pairs.get(at));
        let (name, _) = found.ok_or_else(|| {
            Failure::argument(format!("there is no key {number}: there are {}", pairs.len()))
        })?;
        key.set(name, MAX_KEY + 1).map(drop)
    }
}

/// The command line of this process.
fn command_line() -> Vec<OsString> {
    std::env::args_os().collect()
}

pub(crate) fn needed(info: Option<Arc<Info>>) -> Result<Arc<Info>, Failure> {
    info.ok_or_else(|| Failure::new(Class::Info, "the info object is the null handle"))
}

fn checked(key: OsString) -> Result<OsString, Failure> {
    if key.is_empty() || key.len() > MAX_KEY {
        let text = format!("a key has 1 to {MAX_KEY} bytes, and this one {}", key.len());
        return Err(Failure::new(Class::InfoKey, text).named("key"));
    }
    Ok(key)
}
