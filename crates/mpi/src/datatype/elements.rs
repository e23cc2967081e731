//! Conversions between bytes, elements and counts, for the length of a receive (MPI 5.0 §5.1.11).

use super::tree::{Datatype, Shape};

impl Datatype {
    /// The number of whole elements in so many packed bytes (MPI_Get_count, MPI 5.0 §3.2.5).
    /// `None` is MPI_UNDEFINED: the bytes end inside an element.
    pub fn count_of(&self, bytes: u64) -> Option<u64> {
        match bytes.checked_rem(self.size()) {
            None => (bytes == 0).then_some(0),
            Some(rest) => (rest == 0).then(|| bytes / self.size()),
        }
    }

    /// The number of basic elements in so many packed bytes (MPI_Get_elements, MPI 5.0 §5.1.11),
    /// which may end inside an element of this type. `None` is MPI_UNDEFINED: they end inside a
    /// basic element. The two halves of a pair are two basic elements.
    pub fn elements_of(&self, bytes: u64) -> Option<u64> {
        let Some(mut rest) = bytes.checked_rem(self.size()) else {
            return (bytes == 0).then_some(0);
        };
        let whole = (bytes / self.size()).checked_mul(self.elements())?;
        if rest == 0 {
            return Some(whole);
        }
        let within = match self.shape() {
            Shape::Leaf(kind) => {
                let mut elements = 0;
                for (basic, _) in kind.elements() {
                    if rest < u64::from(basic.size()) {
                        break;
                    }
                    rest -= u64::from(basic.size());
                    elements += 1;
                }
                (rest == 0).then_some(elements)?
            }
            Shape::Same(child) | Shape::Loop { child, .. } => child.elements_of(rest)?,
            Shape::Parts(parts) => {
                let mut elements = 0;
                for part in parts {
                    let length = part.length.unsigned_abs();
                    let size = part.child.size() * length;
                    if rest < size {
                        elements += part.child.elements_of(rest)?;
                        break;
                    }
                    rest -= size;
                    elements += part.child.elements() * length;
                }
                elements
            }
        };
        whole.checked_add(within)
    }

    /// The number of packed bytes of the first basic elements, for MPI_Status_set_elements
    /// (MPI 5.0 §13.3). `None` if the type has no elements, or if the bytes do not fit 64 bits.
    pub fn bytes_of(&self, elements: u64) -> Option<u64> {
        let Some(mut rest) = elements.checked_rem(self.elements()) else {
            return (elements == 0).then_some(0);
        };
        let whole = (elements / self.elements()).checked_mul(self.size())?;
        if rest == 0 {
            return Some(whole);
        }
        let within = match self.shape() {
            Shape::Leaf(kind) => {
                let first = kind.elements().take(rest as usize);
                first.map(|(basic, _)| u64::from(basic.size())).sum()
            }
            Shape::Same(child) | Shape::Loop { child, .. } => child.bytes_of(rest)?,
            Shape::Parts(parts) => {
                let mut bytes = 0;
                for part in parts {
                    let length = part.length.unsigned_abs();
                    let inside = part.child.elements() * length;
                    if rest < inside {
                        bytes += part.child.bytes_of(rest)?;
                        break;
                    }
                    rest -= inside;
                    bytes += part.child.size() * length;
                }
                bytes
            }
        };
        whole.checked_add(within)
    }
}
