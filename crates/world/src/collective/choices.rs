//! Algorithms that the environment chooses: `HIKYAKU_COLL_ALLREDUCE=ring`.

use hikyaku_coll::{Choices, Operation, UnknownChoice, check_by_messages};

/// The variable that chooses an operation's algorithm.
pub(crate) fn variable(operation: Operation) -> String {
    format!("HIKYAKU_COLL_{}", operation.name().to_ascii_uppercase())
}

/// What the environment chooses. An empty variable chooses nothing.
///
/// # Errors
/// A variable names no algorithm of its operation, or one that ranks of a job cannot do.
pub(crate) fn from_environment(
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<Choices, (String, UnknownChoice)> {
    let mut choices = Choices::default();
    for operation in Operation::ALL {
        let variable = variable(operation);
        if let Some(name) = value_of(&variable).filter(|name| !name.is_empty()) {
            let chosen = choices.choose(operation, &name);
            let checked = chosen.and_then(|()| check_by_messages(operation, &name, None));
            checked.map_err(|error| (variable, error))?;
        }
    }
    Ok(choices)
}

/// What `operation=algorithm` chooses.
///
/// # Errors
/// It says something else, a name is unknown, or `ranks` ranks cannot do it.
pub(crate) fn written(choice: &str, ranks: u32) -> Result<(Operation, String), UnknownChoice> {
    Choices::default().choose_written(choice)?;
    let known = choice.split_once('=').and_then(|(operation, name)| {
        Operation::from_name(operation).map(|operation| (operation, name.to_owned()))
    });
    let known = known.ok_or_else(|| UnknownChoice::Form { given: choice.to_owned() })?;
    check_by_messages(known.0, &known.1, Some(ranks))?;
    Ok(known)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn each_operation_has_a_variable_and_an_unknown_name_is_named_with_it() {
        let set = |name: &str| match name {
            "HIKYAKU_COLL_REDUCE_SCATTER" => Some("ring".to_string()),
            "HIKYAKU_COLL_BARRIER" => Some(String::new()),
            _ => None,
        };
        let choices = from_environment(set).unwrap();
        let ring = hikyaku_coll::reduce_scatter::Algorithm::Ring;
        assert_eq!(choices, Choices { reduce_scatter: Some(ring), ..Choices::default() });
        let (variable, error) = from_environment(|_| Some("none".into())).unwrap_err();
        assert_eq!(variable, "HIKYAKU_COLL_BARRIER");
        assert!(error.to_string().starts_with("`none` is not an algorithm of barrier: there are"));
    }
}
