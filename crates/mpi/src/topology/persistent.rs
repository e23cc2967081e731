//! Neighbour collectives that are started again and again (MPI 5.0 §8.9).

use std::rc::Rc;

use super::Exchange;
use crate::communicators::Comm;
use crate::dialect::Dialect;
use crate::failure::Failure;
use crate::raw::HandleAt;
use crate::requests::{Request, State};
use crate::runtime::Mpi;

impl<D: Dialect> Mpi<D> {
    /// Keeps an exchange, to be started.
    pub fn keep_exchange(
        &self,
        comm: &Rc<Comm>,
        exchange: Exchange,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let tags = comm.topology()?.next_kept();
        let (exchange, of) = (Rc::new(exchange), Rc::clone(comm));
        let start = Box::new(move || {
            let exchange = Rc::clone(&exchange);
            let round = Box::pin(async move { exchange.go(tags).await });
            Ok(State::Task(of.inner.start_task(round)))
        });
        self.add_request(Request::persistent(Rc::clone(comm), start), &request)
    }
}
