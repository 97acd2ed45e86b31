//! Planted bugs: does the simulation find what is broken on purpose?
//!
//! ```text
//!   proof/planted/*.edit ─► copy of the tree, all bugs in it, none switched on ─► one build
//!                                                                                 │
//!                       table: which check found it, after how many seeds ◄─ run with each
//! ```
//!
//! The sources themselves know nothing of it. That each edit still applies to them is a test here.

mod copy;
mod edit;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use taketurns_servers::target_dir;

use copy::at;
use edit::Edit;

/// The root of this repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const EDITS: &str = "proof/planted";

/// What the simulation made of one bug.
struct PlantedResult {
    name: String,
    what: String,
    caught: Option<Detection>,
    took: Duration,
}

/// That it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Detection {
    seed: u64,
    by: String,
}

/// Builds the copy, runs it as it is, then with each bug. Fails if one is not found.
pub(crate) fn run(seeds: u64, from: u64, only: Option<&str>) -> Result<(), String> {
    let edits = edits(Path::new(ROOT))?;
    let wanted: Vec<&Edit> =
        edits.iter().filter(|edit| only.is_none_or(|only| only == edit.name)).collect();
    if wanted.is_empty() {
        return Err(format!("{EDITS} has no such edit"));
    }
    eprintln!("==> building with {} bugs in it", edits.len());
    let sim = build(&edits)?;
    eprintln!("==> none of them switched on, {seeds} seeds");
    if let Some(caught) = live(&sim, None, seeds, from)? {
        return Err(format!(
            "==> nothing is planted, and seed {} fails: {}",
            caught.seed, caught.by
        ));
    }
    let mut all = Vec::new();
    for (index, edit) in wanted.iter().enumerate() {
        let started = Instant::now();
        let caught = live(&sim, Some(&edit.name), seeds, from)?;
        let (name, what) = (edit.name.clone(), edit.what.clone());
        let found = PlantedResult { name, what, caught, took: started.elapsed() };
        eprintln!("==> {} of {}: {}", index + 1, wanted.len(), found.row(from));
        all.push(found);
    }
    println!("{:<28} {:<20} {:>8} {:>6}", "planted", "caught by", "seeds", "s");
    for found in &all {
        println!("{}\n    {}", found.row(from), found.what);
    }
    match all.iter().filter(|found| found.caught.is_none()).count() {
        0 => Ok(()),
        missed => Err(format!("==> {missed} of {} were not caught in {seeds} seeds", all.len())),
    }
}

impl PlantedResult {
    fn row(&self, from: u64) -> String {
        let (by, seeds) = match &self.caught {
            Some(caught) => (caught.by.as_str(), (caught.seed - from + 1).to_string()),
            None => ("nothing", String::new()),
        };
        format!("{:<28} {by:<20} {seeds:>8} {:>6.1}", self.name, self.took.as_secs_f64())
    }
}

/// All planted bugs, by name.
fn edits(root: &Path) -> Result<Vec<Edit>, String> {
    let folder = root.join(EDITS);
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder)
        .map_err(|error| at(&folder, &error))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "edit"))
        .collect();
    paths.sort();
    let edit = |path: PathBuf| {
        let text = fs::read_to_string(&path).map_err(|error| at(&path, &error))?;
        Edit::parse(&path.file_stem().unwrap_or_default().to_string_lossy(), &text)
    };
    paths.into_iter().map(edit).collect()
}

/// The simulation with all bugs in it. What others wrote is built once for both.
fn build(edits: &[Edit]) -> Result<PathBuf, String> {
    let target = target_dir();
    let tree = target.join("planted/tree");
    copy::copy(Path::new(ROOT), edits, &tree)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(&tree).args(["build", "--offline", "--profile", "sim"]);
    cargo.args(["--package", "taketurns-sim", "--target-dir"]).arg(&target);
    let built = cargo.output().map_err(crate::not_started)?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    // The next build of the tree itself puts its own there.
    let program = format!("sim{}", std::env::consts::EXE_SUFFIX);
    let (built, sim) = (target.join("sim").join(&program), target.join("planted").join(&program));
    fs::copy(&built, &sim).map_err(|error| at(&built, &error))?;
    Ok(sim)
}

/// Runs the seeds with a bug switched on, until one fails.
fn live(
    sim: &Path,
    planted: Option<&str>,
    seeds: u64,
    from: u64,
) -> Result<Option<Detection>, String> {
    let mut run = Command::new(sim);
    run.args(["--brief", "--seeds", &seeds.to_string(), "--from", &from.to_string()]);
    run.env_remove("PLANTED").stderr(Stdio::inherit());
    if let Some(name) = planted {
        run.env("PLANTED", name).arg("--quiet");
    }
    let ran = run.output().map_err(|error| at(sim, &error))?;
    let said = String::from_utf8_lossy(&ran.stdout);
    match said.lines().find_map(Detection::parse) {
        None if !ran.status.success() => Err(format!("{planted:?} ends it with {}", ran.status)),
        caught => Ok(caught),
    }
}

impl Detection {
    /// From what the simulation says of a seed that fails.
    fn parse(line: &str) -> Option<Self> {
        let (seed, what) = line.strip_prefix("seed ")?.split_once(" fails: ")?;
        let first = what.split([' ', ':']).next().unwrap_or_default();
        let by = match first {
            "Fence" => first,
            "in" => "goes in circles",
            _ if first.len() == 2 && first.starts_with('G') => first,
            _ => "contradicts itself",
        };
        Some(Self { seed: seed.parse().ok()?, by: by.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planted_bug_applies_to_the_tree_as_it_is() {
        let edits = edits(Path::new(ROOT)).expect("edits");
        assert!(edits.len() >= 20, "{}", edits.len());
        let into = tempfile::tempdir().expect("a folder");
        copy::copy(Path::new(ROOT), &edits, into.path()).expect("all apply");
        for edit in edits {
            let planted = fs::read_to_string(into.path().join(&edit.file)).expect("a file");
            let switch = format!("planted::on({:?})", edit.name);
            assert!(planted.contains(&switch), "{}", edit.name);
        }
    }

    #[test]
    fn what_failed_is_read_from_what_the_simulation_says() {
        let caught = |line| Detection::parse(line).map(|caught| (caught.seed, caught.by));
        let by = |seed, by: &str| Some((seed, by.to_owned()));
        assert_eq!(caught("seed 7 fails: G3 at 12, lock lock0: late"), by(7, "G3"));
        assert_eq!(caught("seed 0 fails: Fence at 1, lock l: undid"), by(0, "Fence"));
        assert_eq!(caught("seed 1 fails: in circles: 3001"), by(1, "goes in circles"));
        let corrupt = "seed 2 fails: lock0 after Tick: two free since";
        assert_eq!(caught(corrupt), by(2, "contradicts itself"));
        assert_eq!(caught("seeds     1000"), None);
    }
}
