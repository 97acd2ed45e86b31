//! All figures as JSON, for programs.

use serde_json::{Value, json};

use super::BenchRun;
use crate::results::{Row, WorkloadResult};
use crate::stats::Spread;

pub(super) fn text(run: &BenchRun) -> String {
    let goals = run.goals.iter().map(|goal| {
        json!({
            "name": goal.name,
            "ratio": goal.ratio.map(|spread| spread.median),
            "spread": goal.ratio.map(ends),
            "goal": goal.goal,
            "at_least": goal.at_least,
            "met": goal.met(),
        })
    });
    let all = json!({
        "machine": run.machine.facts().into_iter().collect::<serde_json::Map<_, _>>(),
        "rounds": run.rounds,
        "quick": run.quick,
        "works": run.results.workloads.iter().map(workload).collect::<Vec<Value>>(),
        "goals": goals.collect::<Vec<Value>>(),
    });
    format!("{all:#}\n")
}

fn ends(Spread { min, max, .. }: Spread) -> [f64; 2] {
    [min, max]
}

fn workload(workload: &WorkloadResult) -> Value {
    json!({
        "work": workload.letter,
        "title": workload.title,
        "contestants": workload.rows.iter().map(|row| contestant(workload, row)).collect::<Vec<Value>>(),
    })
}

fn contestant(workload: &WorkloadResult, row: &Row) -> Value {
    let measures = workload.measures.iter().filter_map(|measure| {
        let spread = row.spread(measure.name)?;
        let value = json!({
            "unit": measure.unit,
            "median": spread.median,
            "spread": ends(spread),
            "rounds": row.rounds(measure.name),
        });
        Some((measure.name.to_owned(), value))
    });
    let against = workload.against(row).map(|(reference, spread)| {
        json!({ "reference": reference, "ratio": spread.median, "spread": ends(spread) })
    });
    json!({
        "name": row.name,
        "not_run": row.not_run,
        "against": against,
        "measures": measures.collect::<serde_json::Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goals::reached;
    use crate::report::MachineFacts;
    use crate::results::Results;
    use crate::results::tests::done;
    use crate::workloads::ContestantGroup;

    #[test]
    fn goals_and_every_round_are_in_it() {
        let rows: [(&str, ContestantGroup, &[f64]); 2] = [
            ("floor", ContestantGroup::Floor, &[1.0, 2.0]),
            ("scripts", ContestantGroup::Ours, &[1.0, 1.0]),
        ];
        let results = Results { workloads: vec![done("a", &rows)] };
        let goals = reached(&results);
        let machine = MachineFacts::default();
        let run = BenchRun { results, goals, machine, rounds: 2, quick: true, rivals: Vec::new() };
        let read: Value = serde_json::from_str(&text(&run)).expect("it is JSON");
        let scripts = &read["works"][0]["contestants"][1];
        assert_eq!(scripts["measures"]["rate"]["rounds"], json!([1.0, 1.0]));
        assert_eq!(scripts["against"]["ratio"], json!(0.75));
        let goals = read["goals"].as_array().expect("goals");
        let is_named =
            |goal: &&Value| goal["name"] == "one task: pairs/s against the floor, scripts";
        let goal = goals.iter().find(is_named).expect("a goal of this workload");
        assert_eq!((&goal["goal"], &goal["at_least"]), (&json!(0.9), &json!(true)));
        assert_eq!((&goal["ratio"], &goal["met"]), (&Value::Null, &Value::Null));
    }
}
