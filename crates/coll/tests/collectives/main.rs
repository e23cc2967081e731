//! Every algorithm of every operation: against an oracle, over two networks, and when ranks fail.

#![allow(clippy::unwrap_used)]

mod books;
mod case;
mod channels;
mod costs;
mod endpoints;
mod engines;
mod failures;
mod gaps;
mod groups;
mod left_overs;
mod lengths;
mod lines;
mod network;
mod oracle;
mod pieces;
mod reading;
mod rounds;
mod scattered;
mod table;
