//! A copy that both ends make, under every interleaving that loom can make.
//!
//! Run and bounded as `loom.rs` describes. Each page of the message is a checked cell, so a page
//! that both ends copy, or that is read before its copy is complete, fails the model.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use hikyaku_nic::ring::{CopyStage, JointWord, Pages};
use hikyaku_nic::sync::{AtomicU64, UnsafeCell};
use loom::sync::Arc;
use loom::thread;

use crate::loom::model;

/// Three parts, of at least 32 KiB.
const PAGES: usize = 17;
const LENGTH: u64 = PAGES as u64 * 4096;

const NUMBER: u32 = 3;

struct Message {
    word: AtomicU64,
    pages: Vec<UnsafeCell<u8>>,
}

// SAFETY: loom checks the cells: a racing access fails the model.
unsafe impl Sync for Message {}

// SAFETY: as for Sync.
unsafe impl Send for Message {}

impl Message {
    fn new() -> Arc<Message> {
        let pages = (0..PAGES).map(|_| UnsafeCell::new(0)).collect();
        let message = Arc::new(Message { word: AtomicU64::new(0), pages });
        message.joint().open(NUMBER);
        message
    }

    fn joint(&self) -> JointWord<'_> {
        JointWord(&self.word)
    }

    fn copy(&self, (start, length): (u64, u64)) {
        for page in start / 4096..(start + length).div_ceil(4096) {
            // SAFETY: loom hands out a valid pointer and fails the model on a racing access.
            self.pages[page as usize].with_mut(|place| unsafe { *place += 1 });
        }
    }

    /// Each page was copied once.
    fn check(&self) {
        for page in &self.pages {
            // SAFETY: as above.
            assert_eq!(page.with(|place| unsafe { *place }), 1);
        }
    }

    fn write(&self, works: bool) {
        let pages = Pages::of(LENGTH);
        while let Some(part) = self.joint().claim_front(NUMBER, pages) {
            if works {
                self.copy(part);
            }
            self.joint().copied_front(NUMBER, pages, part.1, works);
        }
    }

    fn read(&self) -> CopyStage {
        let pages = Pages::of(LENGTH);
        loop {
            while let Some(part) = self.joint().claim_back(NUMBER, pages) {
                self.copy(part);
            }
            match self.joint().stage(NUMBER, pages) {
                CopyStage::Open => {}
                stage => return stage,
            }
        }
    }
}

/// A message whose sender copies, or fails to, while `receive` runs.
fn beside_a_sender(works: bool, receive: impl Fn(&Message) + Send + Sync + 'static) {
    model(move || {
        let message = Message::new();
        let sender = thread::spawn({
            let message = Arc::clone(&message);
            move || message.write(works)
        });
        receive(&message);
        sender.join().unwrap();
    });
}

#[test]
fn each_page_is_copied_once_and_seen_whole() {
    for works in [true, false] {
        beside_a_sender(works, |message| {
            while message.read() == CopyStage::Copying {
                thread::yield_now();
            }
            message.check();
        });
    }
}

#[test]
fn memory_that_is_taken_back_is_not_written() {
    beside_a_sender(true, |message| {
        message.joint().close(NUMBER);
        while message.joint().is_copying(NUMBER) {
            thread::yield_now();
        }
        // The memory is reused: a late store of the sender would race with this one.
        message.pages.iter().for_each(|page| {
            // SAFETY: as above.
            page.with_mut(|place| unsafe { *place = 0 });
        });
    });
}

#[test]
#[should_panic]
fn a_receiver_that_does_not_wait_for_the_senders_part_is_detected() {
    beside_a_sender(true, |message| {
        message.read();
        message.check();
    });
}
