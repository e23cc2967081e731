//! Blocking collectives that are often over before anything waits: of little data among ranks of
//! one node, by its lines. They are begun without a future, which is made where they have to wait.

use std::rc::Rc;

use hikyaku_coll::{
    Begun, CollError, begin_allgather, begin_allreduce, begin_barrier, begin_broadcast,
};
use hikyaku_msg::MsgError;

use crate::collectives::{Given, choices_of, for_all, own_part, root_of};
use crate::communicators::Comm;
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::operations::Op;
use crate::raw::Buffer;
use crate::runtime::Mpi;
use crate::types::Area;

/// Ends a call that was begun.
#[inline]
fn end<F: Future<Output = Result<(), CollError<MsgError>>>>(
    comm: &Comm,
    begun: Begun<F::Output, F>,
) -> Result<(), Failure> {
    let result = match begun {
        Begun::Done(result) => result,
        Begun::Waits(future) => wait(comm, future),
    };
    comm.inner.drop_left_overs();
    Ok(result?)
}

#[inline(never)]
fn wait<F: Future>(comm: &Comm, future: F) -> F::Output {
    comm.inner.drive(future)
}

#[allow(clippy::too_many_arguments)]
impl<D: Dialect> Mpi<D> {
    /// MPI_Barrier.
    pub fn run_barrier(&self, comm: Rc<Comm>) -> Result<(), Failure> {
        let by = comm.inner.choices().barrier;
        end(&comm, begin_barrier(&comm.inner.group().waiting(), by))
    }

    /// MPI_Bcast.
    pub fn run_bcast(
        &self,
        buffer: Buffer,
        count: i64,
        datatype: Given,
        root: i32,
        comm: Rc<Comm>,
    ) -> Result<(), Failure> {
        let (area, root) = (Area::new(buffer, count, &*datatype?)?, root_of(&comm, root)?);
        let (group, by) = (comm.inner.group().waiting(), comm.inner.choices().broadcast);
        let mut landing = area.landing();
        let done = end(&comm, begin_broadcast(&group, by, landing.bytes(), root));
        landing.finish();
        done
    }

    /// MPI_Allgather.
    pub fn run_allgather(
        &self,
        out: Buffer,
        out_count: i64,
        out_type: Given,
        into: Buffer,
        in_count: i64,
        in_type: Given,
        comm: Rc<Comm>,
    ) -> Result<(), Failure> {
        let mine = own_part::<D>(out, out_count, out_type, true)?;
        let all = Area::new(into, for_all(&comm, in_count)?, &*in_type?)?;
        let (group, by) = (comm.inner.group().waiting(), comm.inner.choices().allgather);
        let mine = mine.as_ref().map(Area::data);
        let mut landing = all.landing();
        let done = end(&comm, begin_allgather(&group, by, mine.as_deref(), landing.bytes()));
        landing.finish();
        done
    }

    /// MPI_Allreduce.
    pub fn run_allreduce(
        &self,
        out: Buffer,
        into: Buffer,
        count: i64,
        datatype: Given,
        op: Op,
        comm: Rc<Comm>,
    ) -> Result<(), Failure> {
        let (from, into, reducing) = self.operands((out, into), count, &datatype?, op)?;
        let by = choices_of(&comm.inner, &reducing).allreduce;
        let group = comm.inner.group().waiting().with_elements(reducing.element());
        from.copy_to(&into);
        let mut landing = into.landing();
        let begun = begin_allreduce(&group, by, landing.bytes(), reducing.as_reduction());
        let done = end(&comm, begun);
        landing.finish();
        done
    }
}
