//! docs/checklist.md, written from the tests: the tests that show each number of the papers.
//!
//! A test whose name begins with numbers, such as `ip_16_ip_17_round_trips_take_what_is_printed`,
//! shows them: that is the only mark. Its folder decides its worlds, `WORLDS`: ranks that are
//! processes (R), real memory within one process (T), virtual time (S). The page has one entry per
//! number, which says what must be shown; `cargo xtask checklist` writes the tests below it. If no
//! test shows it on real memory (R or T), or in virtual time, a sentence says why it is meaningless
//! there; the page has at most `MOST_REASONS` of them.
//!
//! A test is T unless its folder is listed: nothing becomes R by being forgotten. And a file that
//! the list calls R must start processes or be run by a program that does, `STARTS`.
//!
//! ```text
//! - **CJ-18** A switch takes 125, 187.5 (multicast) and 200 ns; 240 MB/s raw.
//!   - R, T: none: Ranks of one machine have no switches between them.
//!   - S: [packets take 125 ns a switch](../crates/sim/src/model/cenju4/tests.rs)
//! ```

use std::collections::BTreeMap;

use super::covers;
use crate::{TextFile, Tree, Violation};

/// The page.
pub const PAGE: &str = "docs/checklist.md";

/// The papers' prefixes, and the number of checks of each.
const NUMBERS: [(&str, u32); 5] = [("IP", 25), ("FG", 21), ("TF", 22), ("CJ", 23), ("CP", 16)];

/// Numbers without a test in one world.
const MOST_REASONS: usize = 8;

/// The beginning of an entry, and of the line with the counts.
const ENTRY: &str = "- **";
const COUNTS: &str = "Tests show ";

/// The worlds in which a test runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TestWorld {
    /// Ranks that are processes, and the same program in virtual time.
    ProcessesAndSimulated,
    /// Ranks of one process, and the same bodies in virtual time.
    ThreadsAndSimulated,
    Processes,
    Threads,
    Simulated,
}

impl TestWorld {
    fn letters(self) -> &'static str {
        match self {
            TestWorld::ProcessesAndSimulated => "R, S",
            TestWorld::ThreadsAndSimulated => "T, S",
            TestWorld::Processes => "R",
            TestWorld::Threads => "T",
            TestWorld::Simulated => "S",
        }
    }

    fn has_processes(self) -> bool {
        matches!(self, TestWorld::ProcessesAndSimulated | TestWorld::Processes)
    }

    fn is_real(self) -> bool {
        self != TestWorld::Simulated
    }

    fn is_simulated(self) -> bool {
        !matches!(self, TestWorld::Processes | TestWorld::Threads)
    }
}

/// Where each number must be shown: the letters on the page, and whether a test runs there.
type Side = (&'static str, fn(TestWorld) -> bool);
const SIDES: [Side; 2] = [("R, T", TestWorld::is_real), ("S", TestWorld::is_simulated)];

/// Files and tests that are not of one process alone. The first row that covers a file or names a
/// test counts.
const WORLDS: &[(&str, TestWorld)] = &[
    // Cases that virtual time leaves out: `NOT_VIRTUAL` of the jobs' cases gives the reasons.
    ("fg_06_a_stopped_owner_delays_nobody", TestWorld::Processes),
    ("tf_10_the_exchange_goes_on_while_all_but_one_sleep", TestWorld::Processes),
    // The suite runs on shared memory, where one process has a port for each rank (each with a
    // mapping of its own), and on ports in virtual time; the cases run in both kinds of jobs.
    ("tests/conformance/", TestWorld::ThreadsAndSimulated),
    ("tests/jobs/src/bin/rank/calls/", TestWorld::ProcessesAndSimulated),
    ("crates/sim/", TestWorld::Simulated),
    ("crates/launch/src/processes/", TestWorld::Simulated),
    (
        "cp_06_cp_12_a_chain_of_a_process_costs_one_start_where_there_are_chains",
        TestWorld::Simulated,
    ),
    ("cp_12_chains_help_slabs_more_than_blocks", TestWorld::Simulated),
    ("examples/chains/tests/", TestWorld::ProcessesAndSimulated),
    ("crates/shm/src/conducted/", TestWorld::Simulated),
    ("crates/launch/tests/virtual_time.rs", TestWorld::Simulated),
    ("crates/cli/src/simulate/", TestWorld::Simulated),
    ("crates/cli/src/simulated/", TestWorld::Simulated),
    ("crates/cli/tests/simulate.rs", TestWorld::Simulated),
    ("crates/cli/tests/simulated.rs", TestWorld::Simulated),
    ("ip_10_ip_11_simulate_gives_rings_the_policy_of_its_option", TestWorld::Simulated),
    ("tests/jobs/tests/processes/virtual_costs.rs", TestWorld::Simulated),
    ("tests/jobs/tests/processes/virtual_time.rs", TestWorld::Simulated),
    ("tests/jobs/tests/processes/virtual_variables.rs", TestWorld::Simulated),
    ("reproduce/", TestWorld::Simulated),
    // A launcher starts their ranks.
    ("crates/cli/tests/", TestWorld::Processes),
    ("examples/", TestWorld::Processes),
    ("tests/jobs/tests/", TestWorld::Processes),
];

/// The words by which a test file starts a job of processes, itself or by its folder's helpers.
/// Cases of ranks have none: `tests/jobs/tests/processes/calls.rs` starts them.
const STARTS: [&str; 6] =
    ["job(", "Job::new(", "own::run", "Started::new(", "Command::new(", "hikyaku("];
const CASES: &str = "tests/jobs/src/bin/rank/calls/";

/// A test that shows a number, in the order of the page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ShowingTest {
    world: TestWorld,
    path: String,
    sentence: String,
}

type Found = BTreeMap<String, Vec<ShowingTest>>;

/// Checks that the page is equal to the result of [`written`].
pub fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let (text, mut found) = written(tree, page);
    let differs = page.lines().zip(text.lines()).position(|(page, text)| page != text);
    if let Some(line) = differs.or((page != text).then_some(0)) {
        let remedy = "run `cargo xtask checklist`";
        found.push(Violation::new(PAGE, line + 1, "differs from the tests", remedy));
    }
    found
}

/// The page with the present tests, and the violations in it or in them.
pub fn written(tree: &Tree, page: &str) -> (String, Vec<Violation>) {
    let (tests, mut found) = tests(tree);
    let numbers = numbers();
    for (number, shown) in &tests {
        if !numbers.contains(number) {
            let what = format!("no paper has {number}");
            found.push(Violation::new(&shown[0].path, 1, what, "name another number"));
        }
    }
    let mut reasons = 0;
    let mut expected = numbers.iter();
    let mut text = String::new();
    let mut lines = page.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        if line.starts_with(COUNTS) {
            text += &counts(&tests);
            // The sentence may go on to the end of its paragraph.
            while lines.next_if(|(_, line)| !line.is_empty()).is_some() {}
            continue;
        }
        text += line;
        text.push('\n');
        let Some(number) = entry(line) else { continue };
        if expected.next().map(String::as_str) != Some(number) {
            let what = format!("{number} is not the next number");
            found.push(Violation::new(PAGE, at + 1, what, "list each once, in order"));
        }
        let mut kept = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("  - ")) {
            kept.push(line);
        }
        let none = Vec::new();
        let shown = tests.get(number).unwrap_or(&none);
        for ShowingTest { world, path, sentence } in shown {
            text += &format!("  - {}: [{sentence}](../{path})\n", world.letters());
        }
        for (letters, is_in) in SIDES {
            if shown.iter().any(|shown| is_in(shown.world)) {
                continue;
            }
            let lacks = format!("  - {letters}: none: ");
            let reason = kept.iter().find_map(|line| line.strip_prefix(&lacks));
            match reason.filter(|reason| reason.ends_with('.')) {
                Some(reason) => {
                    reasons += 1;
                    text += &format!("{lacks}{reason}\n");
                }
                None => {
                    text += &format!("{lacks}?\n");
                    let what = format!("no test shows {number} ({letters})");
                    let name = number.to_lowercase().replace('-', "_");
                    let remedy = format!("name one `{name}_...`, or say why none can be");
                    found.push(Violation::new(PAGE, at + 1, what, remedy));
                }
            }
        }
    }
    if reasons > MOST_REASONS {
        let what = format!("{reasons} numbers without a test, of at most {MOST_REASONS}");
        found.push(Violation::new(PAGE, 1, what, "write tests instead"));
    }
    if let Some(number) = expected.next() {
        let what = format!("{number} has no entry");
        found.push(Violation::new(PAGE, 1, what, "say what must be shown"));
    }
    (text, found)
}

/// All numbers, in order.
fn numbers() -> Vec<String> {
    let of = |&(paper, count): &(&str, u32)| {
        (1..=count).map(move |number| format!("{paper}-{number:02}")).collect::<Vec<_>>()
    };
    NUMBERS.iter().flat_map(of).collect()
}

/// The number whose entry a line of the page is.
fn entry(line: &str) -> Option<&str> {
    line.strip_prefix(ENTRY)?.split_once("**").map(|(number, _)| number)
}

/// The sentence with the counts.
fn counts(tests: &Found) -> String {
    let all = numbers();
    let shown = |is_in: fn(TestWorld) -> bool| {
        let by = |number: &&String| {
            tests.get(*number).is_some_and(|tests| tests.iter().any(|test| is_in(test.world)))
        };
        all.iter().filter(by).count()
    };
    format!(
        "{COUNTS}{} of the {} numbers on real memory (R or T), {} of them with ranks that are\n\
         processes (R), and {} in virtual time (S).\n",
        shown(TestWorld::is_real),
        all.len(),
        shown(TestWorld::has_processes),
        shown(TestWorld::is_simulated),
    )
}

/// Every test that shows a number, and those that nothing runs.
fn tests(tree: &Tree) -> (Found, Vec<Violation>) {
    let mut tests = Found::new();
    let mut found = Vec::new();
    let source = |file: &&TextFile| {
        (file.path.ends_with(".rs") || file.path.ends_with(".py"))
            && !file.path.starts_with("xtask/")
    };
    for file in tree.texts.iter().filter(source) {
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = function(line) else { continue };
            let (numbers, sentence) = read_name(name);
            if numbers.is_empty() {
                continue;
            }
            let runs =
                file.path.ends_with(".py") || is_attributed(&lines[..at]) || is_listed(tree, name);
            if !runs {
                let what = format!("`{name}` is no test and in no list of cases");
                found.push(Violation::new(&file.path, at + 1, what, "let it run, or rename it"));
            }
            let world = WORLDS.iter().find(|(what, _)| *what == name || covers(what, &file.path));
            let world = world.map_or(TestWorld::Threads, |(_, world)| *world);
            let starts = STARTS.iter().any(|word| file.text.contains(word));
            if world.has_processes() && !starts && !covers(CASES, &file.path) {
                let what = format!("`{name}` starts no processes, as its folder's tests do");
                let remedy = "give it a row of its own in WORLDS";
                found.push(Violation::new(&file.path, at + 1, what, remedy));
            }
            for number in numbers {
                let (path, sentence) = (file.path.clone(), sentence.clone());
                tests.entry(number).or_default().push(ShowingTest { world, path, sentence });
            }
        }
    }
    tests.values_mut().for_each(|tests| tests.sort());
    (tests, found)
}

/// The function that a line of Rust declares, or the test that a line of Python declares.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (head, name) = line.split_once("fn ").or_else(|| line.split_once("def test_"))?;
    let is_head = head.split_whitespace().all(|word| {
        matches!(word, "pub" | "async" | "const" | "unsafe") || word.starts_with("pub(")
    });
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    (is_head && end > 0).then_some(&name[..end])
}

/// The numbers at the beginning of a name, and the rest of it in words.
fn read_name(name: &str) -> (Vec<String>, String) {
    let words: Vec<&str> = name.split('_').collect();
    let is_number = |pair: &[&str]| {
        NUMBERS.iter().any(|(paper, _)| pair[0] == paper.to_lowercase())
            && pair[1].len() == 2
            && pair[1].bytes().all(|byte| byte.is_ascii_digit())
    };
    let head = words.chunks_exact(2).take_while(|pair| is_number(pair)).count();
    let number = |pair: &[&str]| format!("{}-{}", pair[0].to_uppercase(), pair[1]);
    (words.chunks_exact(2).take(head).map(number).collect(), words[2 * head..].join(" "))
}

/// Whether the attributes and comments that end these lines mark a test.
fn is_attributed(above: &[&str]) -> bool {
    let mut head = above.iter().rev().map(|line| line.trim());
    head.by_ref()
        .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
        .any(|attribute| attribute == "#[test]" || attribute.starts_with("#[should_panic"))
}

/// Whether a list of cases names the function: the word occurs somewhere else too.
fn is_listed(tree: &Tree, name: &str) -> bool {
    let times = |file: &TextFile| {
        let is_word = |at: usize| {
            let end = at + name.len();
            !file.text[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        };
        file.text.match_indices(name).filter(|(at, _)| is_word(*at)).count()
    };
    tree.texts.iter().filter(|file| file.path.ends_with(".rs")).map(times).sum::<usize>() > 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A page with an entry per number; the numbers in `given` have these lines, the others none.
    fn page(given: &[(&str, &str)]) -> String {
        let mut text = format!("# What is shown\n\n{COUNTS}nothing.\n\n");
        for number in numbers() {
            text += &format!("{ENTRY}{number}** it is there\n");
            text += given.iter().find(|(of, _)| *of == number).map_or("", |(_, lines)| lines);
        }
        text
    }

    /// A case of both worlds for each number except these, and the list that runs them.
    fn all_but(numbers: &[&str]) -> [(&'static str, String); 2] {
        let (mut cases, mut list) = (String::new(), String::new());
        for number in super::numbers().iter().filter(|it| !numbers.contains(&it.as_str())) {
            let name = format!("{}_holds", number.to_lowercase().replace('-', "_"));
            cases += &format!("pub fn {name}<H>() {{}}\n");
            list += &format!("b: {name},\n");
        }
        [("tests/conformance/src/b.rs", cases), ("tests/conformance/src/list.rs", list)]
    }

    fn tree(page: &str, sources: &[(&str, &str)]) -> Tree {
        let mut files = sources.to_vec();
        files.push((PAGE, page));
        Tree::from_samples(&files, Vec::new())
    }

    fn whats(found: Vec<Violation>) -> Vec<String> {
        found.into_iter().map(|violation| violation.what).collect()
    }

    const TEST: (&str, &str) =
        ("crates/nic/src/a.rs", "#[test]\nfn ip_01_fg_02_both_go() {}\nfn ip_03x() {}\n");
    const CASE: (&str, &str) = ("tests/conformance/src/a.rs", "pub fn ip_01_all_go<H>() {}\n");
    const LIST: (&str, &str) = ("tests/conformance/src/lib.rs", "m! { a: ip_01_all_go, }\n");

    /// A sentence in place of a test.
    const NONE: &str = "  - R, T: none: It is not there.\n";

    #[test]
    fn the_written_page_names_every_test_once_and_is_stable() {
        let others = all_but(&["IP-01", "FG-02"]);
        let mut files = vec![TEST, CASE, LIST];
        files.extend(others.iter().map(|(path, text)| (*path, text.as_str())));
        let given = [("FG-02", "  - S: none: It is not there.\n")];
        let first = tree(&page(&given), &files);
        let (text, found) = written(&first, first.text(PAGE).unwrap());
        assert_eq!(whats(found), Vec::<String>::new());
        let entries = "- **IP-01** it is there\n  \
                       - T, S: [all go](../tests/conformance/src/a.rs)\n  \
                       - T: [both go](../crates/nic/src/a.rs)\n- **IP-02** it";
        assert!(text.contains(entries), "{text}");
        let half = "FG-02** it is there\n  - T: [both go](../crates/nic/src/a.rs)\n  \
                    - S: none: It is not there.\n";
        assert!(text.contains(half), "{text}");
        assert!(text.contains(
            "Tests show 107 of the 107 numbers on real memory (R or T), 0 of them with ranks \
                 that are\nprocesses (R), and 106 in virtual time (S).\n\n"
        ));
        let again = tree(&text, &files);
        assert_eq!(whats(check(&again)), Vec::<String>::new());
        assert_eq!(whats(check(&first)), ["differs from the tests"]);
        let beside = text.replace(
            "go](../crates/nic/src/a.rs)\n- **IP-02",
            &format!("go](../crates/nic/src/a.rs)\n{NONE}- **IP-02"),
        );
        assert_eq!(whats(check(&tree(&beside, &files))), ["differs from the tests"]);
    }

    #[test]
    fn a_world_without_a_test_needs_a_sentence_and_few_may_have_one() {
        for lines in
            ["", "  - R, T: none\n", "  - R, T: none: ?\n", "  - S: none: It is not there.\n"]
        {
            let found = check(&tree(&page(&[("TF-03", lines)]), &[]));
            assert!(whats(found).contains(&"no test shows TF-03 (R, T)".to_owned()), "{lines}");
        }
        let numbers = numbers();
        for (count, expected) in [(8, &[][..]), (9, &["9 numbers without a test, of at most 8"])] {
            let without: Vec<&str> = numbers[..count].iter().map(String::as_str).collect();
            let mut files: Vec<_> = all_but(&without).into_iter().collect();
            let mut case = |number: &str| {
                let name = format!("{}_in_time", number.to_lowercase().replace('-', "_"));
                files.push(("crates/sim/src/a.rs", format!("#[test]\nfn {name}() {{}}\n")));
            };
            without.iter().for_each(|number| case(number));
            let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            let given: Vec<_> = without.iter().map(|number| (*number, NONE)).collect();
            let page = page(&given);
            assert_eq!(whats(written(&tree(&page, &files), &page).1), expected);
        }
    }

    #[test]
    fn numbers_are_listed_once_in_order_and_exist() {
        let doubled = page(&[]).replace("**CP-02**", "**CP-01**");
        let found = whats(check(&tree(&doubled, &[])));
        assert!(found.contains(&"CP-01 is not the next number".to_owned()), "{found:?}");
        let short = page(&[]).replace("- **CP-16**", "- CP-16");
        let found = whats(check(&tree(&short, &[])));
        assert!(found.contains(&"CP-16 has no entry".to_owned()), "{found:?}");
        let unknown = ("crates/a.rs", "#[test]\nfn cp_17_too_many() {}\n");
        let found = whats(check(&tree(&page(&[]), &[unknown])));
        assert!(found.contains(&"no paper has CP-17".to_owned()), "{found:?}");
    }

    #[test]
    fn a_test_is_of_processes_only_where_it_starts_them() {
        let test = "#[test]\nfn ip_01_goes() {}\n";
        let started = format!("{test}fn run() {{ Job::new(2) }}\n");
        for (path, text, letters) in [
            ("crates/nic/src/a.rs", test, "T"),
            // It may start processes, but nobody has said that its ranks are some.
            ("crates/nic/src/a.rs", &started, "T"),
            ("crates/cli/tests/a.rs", &started, "R"),
            ("tests/jobs/src/bin/rank/calls/a.rs", test, "R, S"),
        ] {
            let (tests, found) = tests(&tree(&page(&[]), &[(path, text)]));
            assert_eq!(tests["IP-01"][0].world.letters(), letters, "{path}");
            assert_eq!(whats(found), [] as [&str; 0], "{path}");
        }
        let (_, found) = tests(&tree(&page(&[]), &[("crates/cli/tests/a.rs", test)]));
        assert_eq!(whats(found), ["`ip_01_goes` starts no processes, as its folder's tests do"]);
    }

    #[test]
    fn a_name_that_nothing_runs_is_reported() {
        let found = whats(check(&tree(&page(&[]), &[CASE])));
        assert!(found[0].contains("`ip_01_all_go` is no test"), "{found:?}");
        let python = ("crates/a.py", "def test_ip_02_goes() -> None:\n    pass\n");
        let (tests, _) = tests(&tree(&page(&[]), &[python]));
        assert_eq!(tests["IP-02"][0].sentence, "goes");
    }
}
