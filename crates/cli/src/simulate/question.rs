//! `hikyaku simulate --what-if`: a question, its answer as text, and a page with the plot.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use hikyaku_report::Page;
use hikyaku_reproduce::what_if::{WHAT_IFS, WhatIf, WhatIfAnswer, what_if};

use crate::exit::{USAGE, begin_results, print, say};

/// Answers the question of this name, and writes `what-if-NAME.html` and its tables as CSV.
pub(super) fn run(name: &str, output: &Path) -> ExitCode {
    let Some(question) = what_if(name) else {
        let names: Vec<&str> = WHAT_IFS.iter().map(|question| question.name).collect();
        say(format_args!("there is no question `{name}`; there are {}", names.join(", ")));
        return ExitCode::from(USAGE);
    };
    let written = begin_results(output, &page_name(question))
        .and_then(|()| write(question, &(question.run)(), output));
    let text = match written {
        Ok(text) => text,
        Err(error) => {
            say(format_args!("cannot write to {}: {error}", output.display()));
            return ExitCode::FAILURE;
        }
    };
    match print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.end(),
    }
}

/// Writes the page and the tables, and returns the text for a terminal.
fn write(question: &WhatIf, answer: &WhatIfAnswer, output: &Path) -> io::Result<String> {
    let mut page = Page::new(question.title);
    page.lead(&answer.findings.join(" ")).note(&answer.setup);
    for chart in &answer.charts {
        page.chart(chart.clone());
    }
    let mut text = format!("{}\n\n{}\n\n", question.title, answer.setup);
    for (number, table) in (1..).zip(&answer.tables) {
        page.table(table);
        let name = format!("what-if-{}-{number}.csv", question.name);
        fs::write(output.join(name), table.to_csv())?;
        text += &format!("{}\n", table.to_text());
    }
    for finding in &answer.findings {
        text += &format!("{finding}\n");
    }
    let file = output.join(page_name(question));
    fs::write(&file, page.to_html())?;
    Ok(text + &format!("page: {}", file.display()))
}

fn page_name(question: &WhatIf) -> String {
    format!("what-if-{}.html", question.name)
}
