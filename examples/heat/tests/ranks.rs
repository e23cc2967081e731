//! The program on several ranks: the field does not depend on their number, and bad input ends the
//! whole job in one line.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use hikyaku_jobs::own;

use crate::{PNG_MAGIC, directory};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A configuration in `place`.
fn plate(place: &Path, size: [usize; 2], frame: &str) -> PathBuf {
    let config = place.join("small.toml");
    let rest = "steps = 150\ntolerance = 1e-9\ncheck_every = 7\n";
    fs::write(&config, format!("size = {size:?}\n{frame}\n{rest}")).unwrap();
    config
}

#[test]
fn any_number_of_ranks_computes_the_serial_field() {
    let place = directory("ranks");
    let config = plate(&place, [37, 23], "");
    let mut first = None;
    for ranks in [1, 2, 3, 5, 7] {
        let out = place.join(format!("out-{ranks}"));
        let (code, said, progress) =
            own::run(ranks, &[text(&config), "--check", "--output", text(&out)]);
        assert_eq!(code, 0, "{ranks} ranks: {said}{progress}");
        let line = "check: field is bitwise equal to the serial program's (150 steps)";
        assert!(said.contains(line), "{ranks} ranks: {said}");
        assert!(said.contains(&format!(" blocks on {ranks} ranks, nonblocking ")), "{said}");
        let field = fs::read(out.join("final.npy")).unwrap();
        assert_eq!(field.len(), 128 + 37 * 23 * 8);
        assert!(*first.get_or_insert_with(|| field.clone()) == field, "{ranks} ranks");
    }
}

#[test]
fn every_exchange_computes_the_serial_field() {
    let place = directory("exchanges");
    let config = plate(&place, [29, 31], "frame = 20");
    for ranks in [1, 4, 6] {
        for exchange in ["blocking", "nonblocking", "persistent"] {
            let (out, page) = (place.join("out"), place.join("page.html"));
            let words = ["--check", "--exchange", exchange, "--report", text(&page)];
            let words = [&words[..], &[text(&config), "--output", text(&out)]].concat();
            let (code, said, progress) = own::run(ranks, &words);
            assert_eq!(code, 0, "{exchange}, {ranks} ranks: {said}{progress}");
            assert!(said.contains("bitwise equal to the serial program's (150 steps)"), "{said}");
            assert!(said.contains(&format!(" on {ranks} ranks, {exchange} exchange")), "{said}");
            let page = fs::read_to_string(page).unwrap();
            assert!(page.contains(&format!("time went, {exchange}")), "{exchange}");
        }
    }
}

#[test]
fn bad_input_ends_all_ranks_in_one_line() {
    let place = directory("bad-ranks");
    let file = |name: &str, content: &[u8]| {
        fs::write(place.join(name), content).unwrap();
        place.join(name)
    };
    file("cut.png", PNG_MAGIC);
    let cut = file("cut.toml", b"initial = \"cut.png\"");
    let none = file("none.toml", b"initial = \"none.png\"");
    let unreadable = file("unreadable.toml", b"steps = [[[");
    let absent = place.join("absent.toml");
    for (config, said) in [
        (&cut, "cut.png: the PNG cannot be read: "),
        (&none, "none.png: cannot be read: No such file"),
        (&unreadable, "unreadable.toml: line 1: "),
        (&absent, "absent.toml: cannot be read: No such file"),
    ] {
        let out = place.join("out");
        for ranks in [2, 5] {
            let (code, _, stderr) = own::run(ranks, &[text(config), "--output", text(&out)]);
            assert_eq!(code, 2, "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(stderr.starts_with("heat: ") && stderr.contains(said), "{stderr}");
            assert!(!out.exists());
        }
    }
    let (code, _, stderr) = own::run(3, &[text(&cut), "--colour"]);
    assert_eq!((code, stderr.lines().count()), (2, 1), "{stderr}");
}

/// The same program in virtual time, on a simulated machine: the same field to the bit.
#[test]
fn in_virtual_time_the_field_is_the_same() {
    let place = directory("virtual");
    let config = plate(&place, [37, 23], "");
    for (ranks, exchange) in
        [(1, "nonblocking"), (4, "blocking"), (4, "nonblocking"), (6, "nonblocking")]
    {
        let fields = [own::run, own::run_in_virtual_time].map(|run| {
            let out = place.join(format!("out-{ranks}"));
            let words = [text(&config), "--check", "--exchange", exchange, "--output", text(&out)];
            let (code, said, progress) = run(ranks, &words);
            assert_eq!(code, 0, "{ranks} ranks: {said}{progress}");
            assert!(said.contains("bitwise equal to the serial program's"), "{said}");
            fs::read(out.join("final.npy")).unwrap()
        });
        assert!(fields[0] == fields[1], "{ranks} ranks");
    }
}
