//! Views as dictionaries, with the fields of the classes in `taketurns/_views.py`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use taketurns::{
    Ask, Completion, HolderView, Kind, MemberView, Name, Token, View, WaiterView, WorkView,
};

pub(crate) fn view<'py>(py: Python<'py>, name: &str, view: &View) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", name)?;
    dict.set_item("kind", view.kind.word())?;
    dict.set_item("permits", permits(view.kind))?;
    dict.set_item("last_token", view.last_token.map(Token::raw))?;
    dict.set_item("holders", list_of(py, &view.holders, holder)?)?;
    dict.set_item("waiting", view.waiting)?;
    dict.set_item("waiters", list_of(py, &view.waiters, waiter)?)?;
    dict.set_item("members", list_of(py, &view.members, member)?)?;
    dict.set_item("work", view.work.as_ref().map(|one| work(py, one)).transpose()?)?;
    dict.set_item("quarantine_left", view.quarantine_left.map(|left| left.as_secs_f64()))?;
    Ok(dict)
}

/// What is remembered of the work of a once.
fn work<'py>(py: Python<'py>, work: &WorkView) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("failed", work.failed)?;
    dict.set_item("retry_in", work.retry_in.map(|time| time.as_secs_f64()))?;
    dict.set_item("forgotten_in", work.forgotten_in.as_secs_f64())?;
    dict.set_item("done", work.done.as_ref().map(|done| completion(py, done)).transpose()?)?;
    Ok(dict)
}

/// Who did the work of a once, and when: milliseconds since 1970.
pub(crate) fn completion<'py>(py: Python<'py>, done: &Completion) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("by", done.by.who())?;
    dict.set_item("why", done.by.why())?;
    dict.set_item("token", done.token.raw())?;
    dict.set_item("at_ms", done.at_ms)?;
    dict.set_item("until_ms", done.until_ms)?;
    dict.set_item("failed", done.failed)?;
    dict.set_item("result", done.result.as_str())?;
    Ok(dict)
}

pub(crate) fn list(py: Python<'_>, all: &[(Name, View)]) -> PyResult<Py<PyAny>> {
    let all = list_of(py, all, |py, (name, one)| view(py, name.as_str(), one))?;
    Ok(all.into_any().unbind())
}

pub(crate) fn leader(py: Python<'_>, leader: Option<&HolderView>) -> PyResult<Py<PyAny>> {
    match leader {
        Some(leader) => Ok(holder(py, leader)?.into_any().unbind()),
        None => Ok(py.None()),
    }
}

fn holder<'py>(py: Python<'py>, holder: &HolderView) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("who", holder.label.who())?;
    dict.set_item("why", holder.label.why())?;
    dict.set_item("client", holder.client.to_string())?;
    dict.set_item("token", holder.token.map(Token::raw))?;
    dict.set_item("mode", mode(&holder.ask))?;
    dict.set_item("member", holder.member.as_ref().map(|member| member.as_str()))?;
    dict.set_item("held_for", holder.held_for.as_secs_f64())?;
    dict.set_item("left", holder.left.as_secs_f64())?;
    dict.set_item("is_broken", holder.revoked)?;
    dict.set_item("is_resting", holder.resting)?;
    Ok(dict)
}

fn waiter<'py>(py: Python<'py>, waiter: &WaiterView) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("who", waiter.label.who())?;
    dict.set_item("why", waiter.label.why())?;
    dict.set_item("client", waiter.client.to_string())?;
    dict.set_item("mode", mode(&waiter.ask))?;
    dict.set_item("waited_for", waiter.waited_for.as_secs_f64())?;
    Ok(dict)
}

fn member<'py>(py: Python<'py>, member: &MemberView) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", member.name.as_str())?;
    dict.set_item("is_held", member.held)?;
    dict.set_item("is_leaving", member.leaving)?;
    dict.set_item("is_stale", member.stale)?;
    Ok(dict)
}

fn permits(kind: Kind) -> Option<u32> {
    match kind {
        Kind::Semaphore { permits } => Some(permits),
        _ => None,
    }
}

/// What was asked for, as people say it.
fn mode(ask: &Ask) -> String {
    ask.to_string()
}

fn list_of<'py, T>(
    py: Python<'py>,
    all: &[T],
    dict: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyList>> {
    let dicts: Vec<_> = all.iter().map(|one| dict(py, one)).collect::<PyResult<_>>()?;
    PyList::new(py, dicts)
}
