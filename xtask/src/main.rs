//! Command line of the tree's checks: `cargo xtask tidy`, `ratchet`, `checklist`, `measure` and
//! `mutants`.

#![forbid(unsafe_code)]

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use xtask::measure::Figures;
use xtask::mutants::MutantsRequest;
use xtask::rules::{RULES, checklist, sizes};
use xtask::{Tree, TreeError, Violation};

const USAGE: &str = "usage: cargo xtask COMMAND
  tidy     check the tree; every line of output is one thing to mend
  ratchet  print xtask/ratchet.toml as the tree would need it today
  checklist
           write into docs/checklist.md which test shows which number of the papers
  measure [FOLDER]
           print how large this tree or the one at FOLDER is: lines, files, names, circles
  mutants [--again] [--share N] [--seed N] [--seconds N] [--patience N] [CRATE...]
           run one in N (10) of the mutants of the crates, by a seeded choice;
           --again: survivors of earlier runs too; --seconds: how long the tests of a mutant
           take together (60); --patience: how many times as long a test may take (4)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => load().map(|tree| tidy(&tree)),
        ["ratchet"] => load().map(|tree| {
            print!("{}", sizes::present_ratchet(&tree));
            ExitCode::SUCCESS
        }),
        ["checklist"] => load().map(|tree| write_checklist(&tree)),
        ["measure", ref folder @ ..] if folder.len() < 2 => {
            let given = folder.first().map_or(root(), Path::new);
            // Cargo prints absolute paths. It reports a missing folder itself.
            let folder = fs::canonicalize(given).unwrap_or(given.into());
            Tree::load(&folder).map(|tree| {
                // A reader that closes the pipe early, such as `| head`, is no error.
                let _ = write!(io::stdout(), "{}", Figures::of(&tree));
                ExitCode::SUCCESS
            })
        }
        ["mutants", ref asked @ ..] => return mutants(asked),
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
    print_all(&found);
    let (rules, files) = (RULES.len(), tree.texts.len());
    println!("tidy: {rules} rules over {files} files: {} violations", found.len());
    if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write_checklist(tree: &Tree) -> ExitCode {
    let page = tree.text(checklist::PAGE).unwrap_or_default();
    let (text, found) = checklist::written(tree, page);
    print_all(&found);
    match fs::write(root().join(checklist::PAGE), text) {
        Ok(()) if found.is_empty() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: cannot write {}: {error}", checklist::PAGE);
            ExitCode::from(2)
        }
    }
}

fn print_all(violations: &[Violation]) {
    for violation in violations {
        println!("{violation}");
    }
}

fn mutants(asked: &[&str]) -> ExitCode {
    match MutantsRequest::parse(asked).and_then(|request| request.run(root())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn load() -> Result<Tree, TreeError> {
    Tree::load(root())
}

fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}
