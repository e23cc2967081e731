//! The elements of a shared variable, and its behaviour when a rank dies.

use hikyaku_dsm::Parts;

use super::protocol::Protocol;
use crate::scalar::Scalar;

/// The type of a shared variable's elements, as ranks compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its name: a Rust type, or a code of the caller's such as numpy's `<f8`.
    pub name: String,
    /// Its size, bytes.
    pub bytes: u32,
}

impl Element {
    /// The element type `T`.
    pub fn of<T: Scalar>() -> Element {
        let name = std::any::type_name::<T>().to_owned();
        Element { name, bytes: u32::try_from(size_of::<T>()).unwrap_or(u32::MAX) }
    }
}

/// The options of a shared variable, beyond name, shape and type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedOptions {
    /// How the array is divided among sync variables.
    pub parts: Parts,
    /// Whether it can be acquired again after a rank died while it held it: the guard then says
    /// that its contents may be in the middle of an update ([`super::WriteGuard::mark`]). Otherwise
    /// it is lost, and acquiring it is an error from then on.
    pub recoverable: bool,
    /// Its protocol; `None`: the one of the world's environment ([`Protocol::VARIABLE`]), which is
    /// [`Protocol::Direct`] if that chooses none.
    pub protocol: Option<Protocol>,
}
