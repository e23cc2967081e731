//! Command line of the tree's checks: `cargo xtask tidy` and `cargo xtask ratchet`.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

use xtask::rules::{RULES, sizes};
use xtask::{LoadError, Tree};

const USAGE: &str = "usage: cargo xtask COMMAND
  tidy     check the tree; every line of output is one thing to mend
  ratchet  print xtask/ratchet.toml as the tree would need it today";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => load().map(|tree| tidy(&tree)),
        ["ratchet"] => load().map(|tree| {
            print!("{}", sizes::present_ratchet(&tree));
            ExitCode::SUCCESS
        }),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::from(2)
    })
}

fn tidy(tree: &Tree) -> ExitCode {
    let found = xtask::tidy(tree);
    for violation in &found {
        println!("{violation}");
    }
    let (rules, files) = (RULES.len(), tree.texts.len());
    println!("tidy: {rules} rules over {files} files: {} violations", found.len());
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn load() -> Result<Tree, LoadError> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    Tree::load(package.parent().unwrap_or(package))
}
