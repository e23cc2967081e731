//! Tasks: futures in a table, and their wakeups.
//!
//! The engine's own futures wake a task by its number, which costs a push to a queue. Foreign
//! combinators that make their own wakers get a real `Waker`. It takes an uncontended mutex,
//! because `Waker` must be `Send` even with only one thread.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};

use hikyaku_nic::sync::prefetch_for_write;

use crate::slab::Slab;

/// The number of a task. It is reused after the task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u32);

/// The name of a task in a deadlock report: `rank 3`, `receive unit 0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskName {
    /// The kind of the task: `rank`, `receive unit`.
    pub kind: &'static str,
    /// The index among the tasks of this kind.
    pub index: u32,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.index)
    }
}

/// The target of a wake: a task by number, or a foreign waker.
#[derive(Debug, Clone)]
pub enum Wakeup {
    /// A task of this engine, polled directly.
    Task(TaskId),
    /// The waker of a combinator within a task. It is rare, so it is boxed to keep waiters small.
    Foreign(Box<Waker>),
}

impl Wakeup {
    /// Whether both wake the same task.
    pub(crate) fn same(&self, other: &Wakeup) -> bool {
        match (self, other) {
            (Wakeup::Task(one), Wakeup::Task(another)) => one == another,
            (Wakeup::Foreign(one), Wakeup::Foreign(another)) => one.will_wake(another),
            _ => false,
        }
    }
}

pub(crate) type Body = Pin<Box<dyn Future<Output = ()>>>;

/// One task of the table: a cache line. The name is elsewhere, since only reports need it.
#[repr(align(64))]
struct TaskLine {
    /// The future and its waker, taken out while the future is polled.
    run: Option<(Body, Waker)>,
    /// The object that the task waits for, as that object names itself.
    waits_for: &'static str,
    /// Whether it is in the ready queue.
    ready: bool,
    /// A service may wait for ever without being a deadlock.
    service: bool,
}

/// The maximum number of cache lines of a future that are prefetched. The rest of a program's state
/// is not prefetched.
const LINES: usize = 12;

/// All tasks, and the queue of tasks to be polled.
#[derive(Default)]
pub(crate) struct TaskTable {
    table: Slab<TaskLine>,
    /// By number: the name of the current or last task.
    names: Vec<TaskName>,
    ready: VecDeque<TaskId>,
    /// Tasks that are not services.
    pub(crate) unfinished: usize,
    /// The task being polled, and the address of its waker's data, which identifies its waker.
    current: Option<(TaskId, *const ())>,
    foreign: Arc<WokenTasks>,
}

impl TaskTable {
    pub(crate) fn spawn(&mut self, name: TaskName, service: bool, body: Body) -> TaskId {
        let number = self.table.next_key();
        let foreign = Arc::clone(&self.foreign);
        let waker = Waker::from(Arc::new(TaskWaker { id: TaskId(number), foreign }));
        let task = TaskLine { run: Some((body, waker)), waits_for: "", ready: false, service };
        self.table.insert(task);
        match self.names.get_mut(number as usize) {
            Some(place) => *place = name,
            None => self.names.push(name),
        }
        self.unfinished += usize::from(!service);
        self.wake(TaskId(number));
        TaskId(number)
    }

    /// Queues a task to be polled before the next event. Ignores a task that has ended.
    pub(crate) fn wake(&mut self, id: TaskId) {
        if let Some(task) = self.table.get_mut(id.0)
            && !task.ready
        {
            task.ready = true;
            self.ready.push_back(id);
        }
    }

    /// The next task to poll, with its future and its waker.
    pub(crate) fn next_ready(&mut self) -> Option<(TaskId, Body, Waker)> {
        if self.foreign.any.load(Ordering::Relaxed) {
            self.collect_foreign();
        }
        loop {
            let id = self.ready.pop_front()?;
            let Some(task) = self.table.get_mut(id.0) else { continue };
            task.ready = false;
            task.waits_for = "something outside the simulation";
            if let Some((body, waker)) = task.run.take() {
                self.current = Some((id, waker.data()));
                return Some((id, body, waker));
            }
        }
    }

    /// Puts a pending future back.
    pub(crate) fn put_back(&mut self, id: TaskId, body: Body, waker: Waker) {
        self.current = None;
        if let Some(task) = self.table.get_mut(id.0) {
            task.run = Some((body, waker));
        }
    }

    pub(crate) fn finish(&mut self, id: TaskId) {
        self.current = None;
        if let Some(task) = self.table.remove(id.0) {
            self.unfinished -= usize::from(!task.service);
        }
    }

    /// The tasks that have not ended, except services: their names and what they wait for.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = (TaskId, TaskName, &'static str)> {
        let all = self.table.iter().filter(|(_, task)| !task.service);
        all.map(|(key, task)| (TaskId(key), self.names[key as usize], task.waits_for))
    }

    /// Prefetches the entry of a task that will soon be woken, and then its future.
    pub(crate) fn prepare(&self, id: TaskId, future: bool) {
        if !future {
            self.table.prepare(id.0);
        } else if let Some((body, _)) = self.table.get(id.0).and_then(|task| task.run.as_ref()) {
            let (first, bytes) = (std::ptr::from_ref(&**body).cast::<u8>(), size_of_val(&**body));
            for line in 0..bytes.div_ceil(64).min(LINES) {
                prefetch_for_write(first.wrapping_add(line * 64));
            }
        }
    }

    /// The wakeup for a future that is polled with `context` and waits for `what`.
    pub(crate) fn wakeup(&mut self, context: &Context<'_>, what: &'static str) -> Wakeup {
        let Some((id, data)) = self.current else {
            return Wakeup::Foreign(Box::new(context.waker().clone()));
        };
        if let Some(task) = self.table.get_mut(id.0) {
            task.waits_for = what;
        }
        match context.waker().data() == data {
            true => Wakeup::Task(id),
            false => Wakeup::Foreign(Box::new(context.waker().clone())),
        }
    }

    fn collect_foreign(&mut self) {
        self.foreign.any.store(false, Ordering::Relaxed);
        let woken = std::mem::take(&mut *self.foreign.lock());
        woken.into_iter().for_each(|id| self.wake(id));
    }
}

/// Tasks woken through a `Waker`.
#[derive(Default)]
struct WokenTasks {
    any: AtomicBool,
    woken: Mutex<Vec<TaskId>>,
}

impl WokenTasks {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<TaskId>> {
        // The list of numbers is valid even if the holder of the lock has panicked.
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaskWaker {
    id: TaskId,
    foreign: Arc<WokenTasks>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.foreign.lock().push(self.id);
        self.foreign.any.store(true, Ordering::Relaxed);
    }
}
