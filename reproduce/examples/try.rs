//! scratch
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    for item in hikyaku_reproduce::select(&words).expect("items") {
        let start = std::time::Instant::now();
        let outcome = (item.run)();
        println!("== {} ({:.1}s)", item.name, start.elapsed().as_secs_f64());
        for c in &outcome.checks {
            println!("  {:<11} {:<45} {} | {} | {:.2}", c.verdict.word(), c.what, c.stated, c.model, c.deviation.unwrap_or(0.0));
        }
        for t in &outcome.tables { println!("{}", t.to_text()); }
        for t in &outcome.charts { println!("{}", t.to_table().to_text()); }
    }
}
