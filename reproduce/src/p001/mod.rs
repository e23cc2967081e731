//! Paper 001: synchronisation variables of the shared-memory system Fagus on DIMMnet-1.

mod program;

pub mod figures;
