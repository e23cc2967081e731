//! Protected windows: the owner of a part decides what each rank may do, through the library and
//! past it.

use std::fs;
use std::os::unix::fs::FileExt;

use hikyaku::{Access, Error, PostError, Window, World};
use hikyaku_jobs::process::own_files;
use rustix::fs::{SeekFrom, seek};
use rustix::mm::{MprotectFlags, mprotect};

/// Elements of each part.
const LENGTH: usize = 1000;

/// The name of a part's mapping.
const PART: &str = "/memfd:hikyaku-window";

/// The access that the owner grants a rank.
fn access(owner: u32, rank: u32) -> Access {
    match (owner + 2 * rank) % 3 {
        _ if owner == rank => Access::Write,
        0 => Access::None,
        1 => Access::Read,
        _ => Access::Write,
    }
}

fn is_refused<T>(outcome: &Result<T, Error>) -> bool {
    let Err(Error::Remote(error @ PostError::Protection { .. })) = outcome else { return false };
    error.to_string().contains("the segment allows ")
}

/// Asserts that a call succeeded if and only if it was permitted.
#[track_caller]
fn check<T>(outcome: &Result<T, Error>, may: bool) {
    match outcome {
        Ok(_) => assert!(may, "it was not refused"),
        Err(error) if may => panic!("{error}"),
        Err(error) => assert!(is_refused(outcome), "{error}"),
    }
}

/// The word that a hostile rank writes everywhere, and the word by which ranks signal each other
/// past the library.
const OVER: u64 = 0xa5a5_a5a5_a5a5_a5a5;
const SAID: u64 = 0x7361_6964;

/// Every call on every part, `times` times with windows of their own; or a hostile rank.
pub(crate) fn run(world: &World, times: &str) -> Result<(), Error> {
    let Ok(times) = times.parse::<u32>() else { return hostile(world, times) };
    world.barrier()?;
    let files = own_files();
    for _ in 0..times {
        calls(world)?;
        assert_eq!(own_files(), files, "a descriptor is left");
    }
    world.barrier()?;
    assert_eq!(mappings().iter().filter(|one| one.name == PART).count(), 0);
    Ok(())
}

fn calls(world: &World) -> Result<(), Error> {
    let me = world.rank();
    let window = world.protected_window::<u64>(LENGTH, |rank| access(me, rank))?;
    let signs = world.window::<u64>(world.size() as usize)?;
    assert_eq!(window.local()?, [0; LENGTH]);
    world.barrier()?;
    for owner in 0..world.size() {
        let place = 4 * me as usize;
        let mine = [u64::from(me) + 1, 2];
        let (reads, writes, expected) = match access(owner, me) {
            Access::None => (false, false, [7; 2]),
            Access::Read => (true, false, [0; 2]),
            Access::Write => (true, true, mine),
        };
        check(&window.put(owner, place, &mine), writes);
        let mut found = [7; 2];
        check(&window.get(owner, place, &mut found), reads);
        assert_eq!(found, expected);
        check(&window.load(owner, place), reads);
        let added = window.fetch_add(owner, place, 10);
        check(&added, writes);
        assert_eq!(added.unwrap_or(mine[0]), mine[0]);
        let with_sign = window.put_signal(owner, place + 2, &[3], &signs, me as usize, 1);
        check(&with_sign, writes);
        check(&window.put_chain(&[(owner, place + 3, &[4])], None), writes);
        assert!(window.put(owner, LENGTH, &[1]).is_err());
    }
    world.barrier()?;
    let mut expected = [0; LENGTH];
    for rank in (0..world.size()).filter(|rank| access(me, *rank) == Access::Write) {
        expected[4 * rank as usize..][..4].copy_from_slice(&[u64::from(rank) + 11, 2, 3, 4]);
        assert_eq!(signs.load(me, rank as usize)?, 1);
    }
    assert!(window.local()? == expected, "what others have written here");
    world.barrier()?;
    Ok(())
}

/// A mapping of this process.
struct Mapped {
    start: usize,
    end: usize,
    access: String,
    /// Its offset in the file.
    offset: u64,
    inode: u64,
    name: String,
}

fn mappings() -> Vec<Mapped> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let read = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16).unwrap());
        let access = words.next()?.to_owned();
        let offset = u64::from_str_radix(words.next()?, 16).unwrap();
        let inode = words.nth(1)?.parse().ok()?;
        Some(Mapped { start, end, access, offset, inode, name: words.next()?.to_owned() })
    };
    maps.lines().filter_map(read).collect()
}

/// The mappings of parts here, and the inode of this rank's own.
fn parts(window: &Window<'_, u64>, me: u32) -> Result<(Vec<Mapped>, u64), Error> {
    // Its own part is the one with this mark.
    let mark = 0x6d61_726b_0000_0000 + u64::from(me);
    window.put(me, LENGTH - 1, &[mark])?;
    let memory = fs::File::open("/proc/self/mem").unwrap();
    let parts: Vec<_> = mappings().into_iter().filter(|one| one.name == PART).collect();
    let own = parts.iter().find(|one| {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, (one.start + 8 * (LENGTH - 1)) as u64).unwrap();
        u64::from_ne_bytes(word) == mark
    });
    let own = own.unwrap().inode;
    Ok((parts, own))
}

/// Rank 0 lets rank 1 read its part, and grants no other access. The actions past the library:
///
/// - `read-only`: rank 1 asks the kernel for write access, and writes.
/// - `scribble`: rank 2, which has no access to it, overwrites everything that it has mapped for
///   writing and shares with others, and then writes to an unmapped address.
fn hostile(world: &World, way: &str) -> Result<(), Error> {
    let me = world.rank();
    let access = |rank| match (me, rank) {
        (0, 1) => Access::Read,
        // The part in which the others signal that they have left all calls of the library.
        (2, _) => Access::Write,
        _ => Access::None,
    };
    let window = world.protected_window::<u64>(LENGTH, access)?;
    let data: Vec<u64> = (0..LENGTH as u64 - 1).map(|at| at * at + 1).collect();
    if me == 0 {
        window.put(me, 0, &data)?;
    }
    let (mut parts, own) = parts(&window, me)?;
    let mut inodes = [0; 3];
    world.allgather(&[own], &mut inodes)?;
    let mut of = |rank: usize| {
        let at = parts.iter().position(|part| part.inode == inodes[rank])?;
        Some(parts.swap_remove(at))
    };
    let (first, last) = (of(0), of(2).unwrap());
    assert_eq!(first.is_some(), me < 2, "only the owner and its reader have the part mapped");
    world.barrier()?;
    match (me, first) {
        (0, Some(part)) if way == "read-only" => {
            let heard = world.recv(&mut [0u8], 1, 7);
            assert_eq!(&window.local()?[..data.len()], data);
            println!("unharmed");
            assert!(is_in(&part, &data));
            heard.map(drop)
        }
        (1, Some(part)) if way == "read-only" => write_at(&part),
        (0, Some(part)) => watch(&part, &data, &last),
        (1, _) if way == "scribble" => {
            say(&last, me);
            until_the_launcher_ends_it()
        }
        (2, _) if way == "scribble" => {
            while !is_in(&last, &[SAID; 2]) {
                std::thread::yield_now();
            }
            scribble();
            say(&last, me);
            while !is_in(&last, &[SAID]) {
                std::thread::yield_now();
            }
            store(std::ptr::without_provenance_mut(8));
            Ok(())
        }
        _ => world.recv(&mut [0u8], 0, 7).map(drop),
    }
}

/// Writes to a read-only mapping.
fn write_at(part: &Mapped) -> Result<(), Error> {
    assert_eq!(part.access, "r--s");
    let start = std::ptr::with_exposed_provenance_mut::<u64>(part.start);
    let both = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: a mapping of this process, whose contents are not borrowed.
    let asked = unsafe { mprotect(start.cast(), part.end - part.start, both) };
    assert_eq!(asked, Err(rustix::io::Errno::ACCESS));
    store(start);
    Ok(())
}

/// Checks that the own part is unchanged after the job's memory was overwritten. From then on
/// neither that memory nor the library can be relied on.
fn watch(part: &Mapped, data: &[u64], last: &Mapped) -> ! {
    say(last, 0);
    while !is_in(last, &[OVER, OVER, SAID]) {
        std::thread::yield_now();
    }
    let is_header = |one: &Mapped| one.name == "/memfd:hikyaku" && one.offset == 0;
    let header = mappings().into_iter().find(is_header).unwrap();
    assert!(is_in(&header, &[OVER; 8]), "it has not been overwritten");
    assert!(is_in(part, data));
    println!("unharmed");
    say(last, 0);
    until_the_launcher_ends_it()
}

/// Stores a word where this process has no write access.
fn store(at: *mut u64) {
    // SAFETY: no memory is written: the page is not writable for this process, so the store raises
    // a signal. The test is that it does.
    unsafe { at.write_volatile(u64::MAX) };
}

/// Overwrites every shared page that this process can write, without a call of the library.
fn scribble() {
    let files = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open: Vec<_> = files.filter_map(|file| fs::File::open(file.path()).ok()).collect();
    let inode = |file: &fs::File| rustix::fs::fstat(file).map_or(0, |status| status.st_ino);
    for one in mappings() {
        if one.access != "rw-s" || one.name.starts_with("/dev/") {
            continue;
        }
        let start = std::ptr::with_exposed_provenance_mut::<u8>(one.start);
        let length = one.end - one.start;
        let write = |at: usize, length: usize| {
            // SAFETY: bytes of a mapping of this process that is writable. The library's words are
            // there, which it loads as data that any process may have written.
            unsafe { start.wrapping_add(at).write_bytes(OVER as u8, length) };
        };
        // A job's memory has holes, which a plain write would fill.
        let Some(file) = open.iter().find(|file| inode(file) == one.inode) else {
            write(0, length);
            continue;
        };
        let (mut at, end) = (one.offset, one.offset + length as u64);
        while let Some(from) = seek(file, SeekFrom::Data(at)).ok().filter(|from| *from < end) {
            at = seek(file, SeekFrom::Hole(from)).unwrap();
            write((from - one.offset) as usize, (at.min(end) - from) as usize);
        }
    }
}

/// Whether a mapping begins with these words, read from memory and not through the library.
fn is_in(part: &Mapped, data: &[u64]) -> bool {
    let memory = fs::File::open("/proc/self/mem").unwrap();
    let mut bytes = vec![0; 8 * data.len()];
    memory.read_exact_at(&mut bytes, part.start as u64).unwrap();
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).eq(data.iter().copied())
}

fn until_the_launcher_ends_it() -> ! {
    loop {
        std::thread::park();
    }
}

/// Signals the other ranks, in the last one's part, that this one has taken its next step.
fn say(last: &Mapped, me: u32) {
    let memory = fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    let place = last.start as u64 + 8 * u64::from(me);
    memory.write_all_at(&SAID.to_ne_bytes(), place).unwrap();
}
