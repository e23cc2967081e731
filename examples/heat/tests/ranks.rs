//! The program on several ranks: the field does not depend on how many, and bad input ends the
//! whole job in one line.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use heat::files::{PNG_MAGIC, decode_npy};
use hikyaku_jobs::own;

/// A directory of its own for each test. Those of all packages lie in one folder.
fn directory(name: &str) -> PathBuf {
    own::directory(env!("CARGO_TARGET_TMPDIR"), &format!("heat-{name}"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn any_number_of_ranks_computes_the_serial_field() {
    let place = directory("ranks");
    let config = place.join("small.toml");
    let lines = "pattern = \"disc\"\nsize = [37, 23]\nsteps = 150\nboundary = \"insulated\"\n";
    fs::write(&config, format!("{lines}tolerance = 1e-9\ncheck_every = 7\n")).unwrap();
    let mut first = None;
    for ranks in [1, 2, 3, 5, 7] {
        let out = place.join(format!("out-{ranks}"));
        let (code, said, progress) =
            own::run(ranks, &[text(&config), "--check", "--output", text(&out)]);
        assert_eq!(code, 0, "{ranks} ranks: {said}{progress}");
        let line = "check: field is bitwise equal to the serial program's (851 cells)";
        assert!(said.contains(line), "{ranks} ranks: {said}");
        assert!(said.contains(&format!(" blocks on {ranks} ranks, nonblocking: ")), "{said}");
        let field = fs::read(out.join("final.npy")).unwrap();
        assert_eq!(decode_npy(&field).unwrap().cells.len(), 851);
        assert!(*first.get_or_insert_with(|| field.clone()) == field, "{ranks} ranks");
    }
}

/// Every exchange, one after the other in one run, of every stencil: the serial field each time.
#[test]
fn every_exchange_of_every_stencil_computes_the_serial_field() {
    let place = directory("exchanges");
    for (name, lines, cells) in [
        ("nine", "size = [29, 31]\nstencil = \"9-point\"\nboundary = \"fixed\"", "899"),
        ("seven", "size = [11, 9, 10]\nboundary = \"insulated\"", "990"),
    ] {
        let config = place.join(format!("{name}.toml"));
        let content = format!("pattern = \"disc\"\nsteps = 40\ncheck_every = 7\n{lines}\n");
        fs::write(&config, content).unwrap();
        for ranks in [1, 4, 6] {
            let out = place.join(format!("{name}-{ranks}"));
            let page = place.join(format!("{name}-{ranks}.html"));
            let exchanges = "blocking,nonblocking,persistent";
            let (code, said, progress) = own::run(
                ranks,
                &[
                    text(&config),
                    "--check",
                    "--exchange",
                    exchanges,
                    "--output",
                    text(&out),
                    "--report",
                    text(&page),
                ],
            );
            assert_eq!(code, 0, "{name}, {ranks} ranks: {said}{progress}");
            let line = format!("bitwise equal to the serial program's ({cells} cells)");
            assert!(said.contains(&line), "{name}, {ranks} ranks: {said}");
            for exchange in exchanges.split(',') {
                assert!(
                    said.contains(&format!(" on {ranks} ranks, {exchange}: 40 steps")),
                    "{said}"
                );
            }
            let page = fs::read_to_string(page).unwrap();
            assert!(page.contains("Exchanges side by side"));
        }
    }
}

#[test]
fn bad_input_ends_all_ranks_in_one_line() {
    let place = directory("bad-ranks");
    let rest = "steps = 5\nboundary = \"fixed\"\n";
    let file = |name: &str, content: &[u8]| {
        fs::write(place.join(name), content).unwrap();
        place.join(name)
    };
    file("cut.png", PNG_MAGIC);
    let cut = file("cut.toml", format!("initial = \"cut.png\"\n{rest}").as_bytes());
    let none = file("none.toml", format!("initial = \"none.png\"\n{rest}").as_bytes());
    let unreadable = file("unreadable.toml", b"steps = [[[");
    let absent = place.join("absent.toml");
    for (config, said) in [
        (&cut, "cut.png: the PNG is truncated"),
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

/// The very program in virtual time, on a machine that is not there: the same field to the bit.
#[test]
fn in_virtual_time_the_field_is_the_same() {
    let place = directory("virtual");
    let config = place.join("small.toml");
    let lines = "pattern = \"disc\"\nsize = [37, 23]\nsteps = 60\nboundary = \"insulated\"\n";
    fs::write(&config, format!("{lines}check_every = 7\n")).unwrap();
    for (ranks, exchange) in [(1, "nonblocking"), (4, "blocking,nonblocking"), (6, "nonblocking")] {
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
